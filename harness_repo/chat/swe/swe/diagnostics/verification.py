"""Does the model check its work: is there a passing run after the last edit, before it submits?"""

NAME = "verification"
LAYER = "behaviour"
THRESHOLDS = {
    "verified_share": {"warn": 0.6, "critical": 0.3, "direction": "below"},
    "no_edit_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
}


def last_edit(events):
    """The place of the last edit that worked, or None."""
    places = [n for n, event in enumerate(events) if event["tool"] == "edit" and event["ok"]]
    return places[-1] if places else None


def verified(events):
    """Whether a test or command succeeded after the last edit."""
    place = last_edit(events)
    if place is None:
        return False
    return any(event["tool"] in ("test", "run") and event["ok"] for event in events[place + 1 :])


def measure(rollouts):
    if not rollouts:
        return {}
    logs = [rollout["tool_events"] for rollout in rollouts]
    edited = [events for events in logs if last_edit(events) is not None]
    metrics = {"no_edit_share": 1.0 - len(edited) / len(logs)}
    if edited:
        metrics["verified_share"] = sum(map(verified, edited)) / len(edited)
    return metrics
