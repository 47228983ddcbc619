"""How attempts end: with an answer, cut in the middle of a reply, or out of turns or context."""

NAME = "endings"
LAYER = "behaviour"
THRESHOLDS = {
    "cut_reply_share": {"warn": 0.05, "critical": 0.2, "direction": "above"},
    "out_of_turns_share": {"warn": 0.05, "critical": 0.2, "direction": "above"},
    "out_of_context_share": {"warn": 0.05, "critical": 0.2, "direction": "above"},
}


def measure(rollouts):
    if not rollouts:
        return {}
    reasons = [rollout["stop_reason"] for rollout in rollouts]
    share = {name: reasons.count(name) / len(reasons) for name in set(reasons)}
    return {
        "cut_reply_share": share.get("length", 0.0),
        "out_of_turns_share": share.get("turn_limit", 0.0),
        "out_of_context_share": share.get("token_limit", 0.0),
    }
