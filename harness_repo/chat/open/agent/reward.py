"""What training rewards: each component is a number, WEIGHTS says how much it counts.

Where the grader gives a number, part of the reward is that number, so that attempts which fail are
told apart; it counts less than the verdict does.
"""

WEIGHTS = {"solved": 1.0, "score": 0.3}


def solved(rollout):
    """The grader's answer."""
    return 1.0 if rollout["outcome"] else 0.0


def score(rollout):
    """The grader's own number, as far as it lies between 0 and 1; without one, its answer."""
    value = rollout.get("outcome_detail", {}).get("score")
    return min(1.0, max(0.0, value)) if isinstance(value, (int, float)) else solved(rollout)


COMPONENTS = {"solved": solved, "score": score}


def reward(rollout):
    return {name: component(rollout) for name, component in COMPONENTS.items()}
