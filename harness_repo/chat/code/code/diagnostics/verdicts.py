"""In which way programs fail: wrong, too slow, broken, or no program at all."""

NAME = "verdicts"
LAYER = "score"
THRESHOLDS = {
    "too_slow_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
    "no_program_share": {"warn": 0.05, "critical": 0.2, "direction": "above"},
}
GROUPS = {
    "wrong_answer_share": ("wrong_answer", "failed"),
    "too_slow_share": ("timeout",),
    "crashed_share": ("crashed", "raised", "killed", "died", "out_of_memory"),
    "no_program_share": ("no_program", "no_code", "code_too_long", "never_called"),
}


def measure(rollouts):
    if not rollouts:
        return {}
    verdicts = [rollout.get("outcome_detail", {}).get("verdict", "no_code") for rollout in rollouts]
    return {name: sum(v in group for v in verdicts) / len(verdicts) for name, group in GROUPS.items()}
