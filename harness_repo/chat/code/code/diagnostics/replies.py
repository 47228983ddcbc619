"""Are replies understood: turns that called no tool, programs that did not run."""

NAME = "replies"
LAYER = "behaviour"
THRESHOLDS = {
    "idle_turn_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
}


def measure(rollouts):
    turns = sum(rollout["turns"] for rollout in rollouts)
    if not turns:
        return {}
    busy = sum(len({event["turn"] for event in rollout["tool_events"]}) for rollout in rollouts)
    return {"idle_turn_share": max(0.0, 1.0 - busy / turns)}
