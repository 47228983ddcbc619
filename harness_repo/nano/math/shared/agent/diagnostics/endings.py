"""How attempts end: with an answer, in the middle of a reply, or with nothing."""

NAME = "endings"
LAYER = "behaviour"
THRESHOLDS = {
    "cut_reply_share": {"warn": 0.02, "critical": 0.1, "direction": "above"},
    "unanswered_share": {"warn": 0.08, "critical": 0.25, "direction": "above"},
}


def measure(rollouts):
    if not rollouts:
        return {}
    reasons = [rollout["stop_reason"] for rollout in rollouts]
    return {
        "cut_reply_share": reasons.count("length") / len(reasons),
        "unanswered_share": 1.0 - reasons.count("submitted") / len(reasons),
    }
