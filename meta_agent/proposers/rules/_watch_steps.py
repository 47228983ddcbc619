"""In how many attempts do two tool calls follow each other, by the last word of their results?"""

NAME = "steps"
LAYER = "behaviour"
THRESHOLDS = {"share": {"warn": 0.5, "direction": "above"}}
MARK = ("start", "end")


def step_marks(rollout: dict[str, list[dict[str, str]]]) -> set[tuple[str, str]]:
    """Returns the pairs of successive calls, each with the last word of a short result."""
    steps = ["start"]
    for event in rollout["tool_events"]:
        words = event["result"].split() if len(event["result"]) <= 40 else []
        steps.append(" ".join([event["tool"], *words[-1:]]))
    steps.append("end")
    return {(steps[place], steps[place + 1]) for place in range(len(steps) - 1)}


def measure(rollouts: list[dict[str, list[dict[str, str]]]]) -> dict[str, float]:
    if not rollouts:
        return {}
    return {"share": sum(MARK in step_marks(rollout) for rollout in rollouts) / len(rollouts)}
