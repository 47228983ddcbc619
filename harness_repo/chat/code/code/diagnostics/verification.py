"""Does the model check its work: was the code that it hands in run, and did that run end well?"""

NAME = "verification"
LAYER = "behaviour"
THRESHOLDS = {
    "verified_share": {"warn": 0.6, "critical": 0.3, "direction": "below"},
    "against_a_failure_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
}


def code_of(event):
    return str(event["arguments"].get("code", "")).strip()


def runs_of(events):
    """The runs and tests of the code that was handed in, in order; None where none was."""
    handed_in = [event for event in events if event["tool"] == "submit"]
    if not handed_in:
        return None
    code = code_of(handed_in[0])
    return [event for event in events if event["tool"] in ("run", "test") and code and code in code_of(event)]


def measure(rollouts):
    found = [runs for runs in (runs_of(rollout["tool_events"]) for rollout in rollouts) if runs is not None]
    if not found:
        return {}
    return {
        "verified_share": sum(any(event["ok"] for event in runs) for runs in found) / len(found),
        "against_a_failure_share": sum(bool(runs) and not runs[-1]["ok"] for runs in found) / len(found),
    }
