"""Grades a JSON extraction: an answer is solved if it is the object that was asked for."""

import json

THRESHOLD = 1.0
LIMITS = {"max_tokens_per_turn": 64}


def grade(task, answer):
    """Returns the share of fields that are right; text around the object is worth nothing."""
    try:
        answered = json.loads(answer.strip())
    except json.JSONDecodeError:
        return 0.0
    if not isinstance(answered, dict):
        return 0.0
    right = sum(answered.get(key) == value for key, value in task["gold"].items())
    return right / max(len(task["gold"]), len(answered))
