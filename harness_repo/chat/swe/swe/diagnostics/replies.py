"""Are replies understood: turns that called no tool, calls that were refused."""

NAME = "replies"
LAYER = "behaviour"
THRESHOLDS = {
    "idle_turn_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
    "refused_edit_share": {"warn": 0.3, "critical": 0.6, "direction": "above"},
}


def measure(rollouts):
    turns = sum(rollout["turns"] for rollout in rollouts)
    if not turns:
        return {}
    busy = sum(len({event["turn"] for event in r["tool_events"]}) for r in rollouts)
    edits = [e for r in rollouts for e in r["tool_events"] if e["tool"] == "edit"]
    metrics = {"idle_turn_share": max(0.0, 1.0 - busy / turns)}
    if edits:
        metrics["refused_edit_share"] = sum(not event["ok"] for event in edits) / len(edits)
    return metrics
