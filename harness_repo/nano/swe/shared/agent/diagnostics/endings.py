"""How attempts end, and whether what the policy reads is cut on the way."""

NAME = "endings"
LAYER = "behaviour"
THRESHOLDS = {
    "turn_limit_share": {"warn": 0.08, "critical": 0.25, "direction": "above"},
    "unsubmitted_share": {"warn": 0.08, "critical": 0.25, "direction": "above"},
    "cut_reply_share": {"warn": 0.02, "critical": 0.1, "direction": "above"},
    "cut_observation_share": {"warn": 0.02, "critical": 0.2, "direction": "above"},
}


def cut_observations(rollout):
    """Returns for each tool line whether it is shorter than what the tool said."""
    shown = [m["content"] for m in rollout["messages"] if m["role"] == "tool"]
    said = {event["result"] for event in rollout["tool_events"]}
    return [text not in said and any(s.startswith(text) for s in said) for text in shown if text]


def measure(rollouts):
    if not rollouts:
        return {}
    reasons = [rollout["stop_reason"] for rollout in rollouts]
    cuts = [cut for rollout in rollouts for cut in cut_observations(rollout)]
    share = {name: reasons.count(name) / len(reasons) for name in set(reasons)}
    return {
        "unsubmitted_share": 1.0 - share.get("submitted", 0.0),
        "turn_limit_share": share.get("turn_limit", 0.0) + share.get("returned", 0.0),
        "cut_reply_share": share.get("length", 0.0),
        "cut_observation_share": sum(cuts) / len(cuts) if cuts else 0.0,
    }
