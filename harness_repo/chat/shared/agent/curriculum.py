"""In which order to train on tasks: least tried first, then those solved about half of the time."""

import hashlib


def shuffled(key):
    """Returns a fixed but arbitrary place for a task."""
    return hashlib.sha256(key.encode()).hexdigest()


def order(tasks, history):
    def place(task):
        past = history.get(task["key"], {})
        tries, solved = past.get("tries", 0), past.get("solved", 0)
        distance = abs(solved / tries - 0.5) if tries else 0.0
        return tries, distance, shuffled(task["key"])

    return [task["key"] for task in sorted(tasks, key=place)]
