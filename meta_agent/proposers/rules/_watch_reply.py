"""In how many attempts does the last reply hold a word or sign, or begin or end with it?"""

import re

NAME = "reply"
LAYER = "behaviour"
THRESHOLDS = {"share": {"warn": 0.5, "direction": "above"}}
MARK = ("holds", "")


def reply_marks(rollout: dict[str, list[dict[str, str]]]) -> set[tuple[str, str]]:
    """Returns the words and signs of the last reply, and the first and the last one as such."""
    replies = [m["content"] or "" for m in rollout["messages"] if m["role"] == "assistant"]
    words = re.findall(r"\w+|[^\w\s]", replies[-1][:4000]) if replies else []
    ends = {("begins with", words[0]), ("ends with", words[-1])} if words else set()
    return {("holds", word) for word in words} | ends


def measure(rollouts: list[dict[str, list[dict[str, str]]]]) -> dict[str, float]:
    if not rollouts:
        return {}
    return {"share": sum(MARK in reply_marks(rollout) for rollout in rollouts) / len(rollouts)}
