"""Is there an answer at the end, and can the grader read it?"""

NAME = "answers"
LAYER = "behaviour"
THRESHOLDS = {
    "unanswered_share": {"warn": 0.05, "critical": 0.2, "direction": "above"},
    "unreadable_share": {"warn": 0.02, "critical": 0.1, "direction": "above"},
}


def verdict(rollout):
    return rollout.get("outcome_detail", {}).get("verdict", "no_answer")


def measure(rollouts):
    if not rollouts:
        return {}
    verdicts = [verdict(rollout) for rollout in rollouts]
    unreadable = sum(v in ("unparsable_answer", "answer_too_long", "timeout") for v in verdicts)
    return {
        "unanswered_share": verdicts.count("no_answer") / len(verdicts),
        "unreadable_share": unreadable / len(verdicts),
    }
