"""How soon the policy edits: before it has looked is too soon, much later is dithering."""

NAME = "first_edit"
LAYER = "behaviour"
THRESHOLDS = {
    "first_edit_turn": {"warn": 3.0, "critical": 5.0, "direction": "above"},
    "no_edit_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
}


def first_edit(rollout):
    """Returns the place of the first edit among the tool calls, from 1, or None."""
    for place, event in enumerate(rollout["tool_events"], start=1):
        if event["tool"] == "edit":
            return place
    return None


def measure(rollouts):
    if not rollouts:
        return {}
    places = [first_edit(rollout) for rollout in rollouts]
    found = [place for place in places if place is not None]
    metrics = {"no_edit_share": 1.0 - len(found) / len(places)}
    if found:
        metrics["first_edit_turn"] = sum(found) / len(found)
    return metrics
