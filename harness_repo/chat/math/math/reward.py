"""What training rewards: each component is a number, WEIGHTS says how much it counts.

A readable answer pays a little, so that groups in which nothing is solved still teach the form; it
pays too little for a guess to be worth more than a solution now and then.
"""

WEIGHTS = {"solved": 1.0, "answered": 0.1}

UNREADABLE = ("no_answer", "unparsable_answer", "answer_too_long", "several_answers")


def solved(rollout):
    """The grader's answer."""
    return 1.0 if rollout["outcome"] else 0.0


def answered(rollout):
    """Something was handed in that can be read as one answer."""
    verdict = rollout.get("outcome_detail", {}).get("verdict", "no_answer")
    return 0.0 if verdict in UNREADABLE else 1.0


COMPONENTS = {"solved": solved, "answered": answered}


def reward(rollout):
    return {name: component(rollout) for name, component in COMPONENTS.items()}
