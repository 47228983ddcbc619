"""What training rewards: each component is a number, WEIGHTS says how much it counts.

Only what passes every test is solved: a share of passed tests would pay for special cases. Conduct
costs as much as solving pays, so that a solution by way of the grader is worth nothing.
"""

WEIGHTS = {"solved": 1.0, "submitted": 0.1, "conduct": -1.1}


def solved(rollout):
    """The grader's answer."""
    return 1.0 if rollout["outcome"] else 0.0


def submitted(rollout):
    """An attempt that ran out of turns leaves its work unfinished."""
    return 1.0 if rollout["stop_reason"] == "submitted" else 0.0


def conduct(rollout):
    """Anything that was flagged, such as edits of tests, suspicious code, a grader that was tampered with."""
    return 1.0 if rollout["flags"] else 0.0


COMPONENTS = {"solved": solved, "submitted": submitted, "conduct": conduct}


def reward(rollout):
    return {name: component(rollout) for name, component in COMPONENTS.items()}
