"""Is there working in the replies, is it right, and is it more than the sum needs?"""

import re

NAME = "working"
LAYER = "behaviour"
THRESHOLDS = {
    "worked_share": {"warn": 0.5, "critical": 0.2, "direction": "below"},
    "wrong_step_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
    "worked_twice_share": {"warn": 0.15, "critical": 0.5, "direction": "above"},
}
STEP = re.compile(r"(?:\d*,)?(\d+)([-+*])(\d+)")


def said(rollout):
    """Returns the last thing that the policy wrote."""
    own = [m["content"] for m in rollout["messages"] if m["role"] == "assistant"]
    return own[-1] if own else ""


def steps(text):
    """Returns (left, operator, number, result) of each step of a chain of equations."""
    parts = text.partition("#")[0].split("=")
    found = []
    for here, after in zip(parts, parts[1:]):
        match = STEP.fullmatch(here)
        result = re.match(r"\d+", after)
        if match and result:
            found.append((int(match[1]), match[2], int(match[3]), int(result[0])))
    return found


def right(left, operator, number, result):
    """Returns whether a step holds."""
    found = {"+": left + number, "-": left - number, "*": left * number}
    return found[operator] == result


def measure(rollouts):
    if not rollouts:
        return {}
    replies = [said(rollout) for rollout in rollouts]
    whole = [r for r in rollouts if r["stop_reason"] != "length"]  # a cut number is no mistake
    taken = [step for rollout in whole for step in steps(said(rollout))]
    metrics = {
        "worked_share": sum("=" in text for text in replies) / len(replies),
        "worked_twice_share": sum("," in text for text in replies) / len(replies),
        "reply_chars_mean": sum(map(len, replies)) / len(replies),
    }
    if taken:
        metrics["wrong_step_share"] = sum(not right(*step) for step in taken) / len(taken)
    return metrics
