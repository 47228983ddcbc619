"""What training rewards: each component is a number, WEIGHTS says how much it counts.

`rollout["outcome_detail"]` has the parts of the grade, from 0 to 1: `parsed`, `name`, `arguments`, `exact`.
"""

WEIGHTS = {"solved": 1.0}


def solved(rollout):
    """The grader's answer."""
    return 1.0 if rollout["outcome"] else 0.0


COMPONENTS = {"solved": solved}


def reward(rollout):
    return {name: component(rollout) for name, component in COMPONENTS.items()}
