"""How long attempts are, solved and unsolved."""

NAME = "turns"
LAYER = "behaviour"
THRESHOLDS = {
    "turns_mean": {"warn": 9.0, "critical": 11.0, "direction": "above"},
    "turns_unsolved": {"warn": 3.0, "critical": 2.0, "direction": "below"},
}


def mean(values):
    return sum(values) / len(values)


def measure(rollouts):
    if not rollouts:
        return {}
    parts = {
        "turns_mean": [r["turns"] for r in rollouts],
        "turns_solved": [r["turns"] for r in rollouts if r["outcome"]],
        "turns_unsolved": [r["turns"] for r in rollouts if r["outcome"] is False],
    }
    return {name: mean(values) for name, values in parts.items() if values}
