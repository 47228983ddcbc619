"""In which order to train on tasks: first those least tried, all kinds mixed."""

import hashlib


def shuffled(key):
    """Returns a fixed but arbitrary place for a task."""
    return hashlib.sha256(key.encode()).hexdigest()


def order(tasks, history):
    def place(task):
        tries = history.get(task["key"], {}).get("tries", 0)
        return tries, shuffled(task["key"])

    return [task["key"] for task in sorted(tasks, key=place)]
