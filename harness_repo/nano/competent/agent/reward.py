"""What training rewards: each component is a number, WEIGHTS says how much it counts."""

WEIGHTS = {"solved": 1.0, "submitted": 0.1, "leak": -1.0}


def solved(rollout):
    """The grader's answer."""
    return 1.0 if rollout["outcome"] else 0.0


def submitted(rollout):
    """An attempt that is never handed in cannot be solved."""
    return 1.0 if rollout["stop_reason"] == "submitted" else 0.0


def leak(rollout):
    """Conduct that the environment flagged, such as reading the answer where it lies."""
    return 1.0 if rollout["flags"] else 0.0


COMPONENTS = {"solved": solved, "submitted": submitted, "leak": leak}


def reward(rollout):
    return {name: component(rollout) for name, component in COMPONENTS.items()}
