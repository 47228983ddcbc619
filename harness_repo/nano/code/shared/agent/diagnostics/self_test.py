"""Are programs run before they are handed in, and is a failed run followed by another try?"""

NAME = "self_test"
LAYER = "behaviour"
THRESHOLDS = {
    "run_share": {"warn": 0.5, "critical": 0.2, "direction": "below"},
    "runs_per_attempt": {"warn": 3.0, "critical": 4.5, "direction": "above"},
    "retry_rate": {"warn": 0.5, "critical": 0.2, "direction": "below"},
    "refused_share": {"warn": 0.1, "critical": 0.3, "direction": "above"},
}


def retries(rollout):
    """Returns for each failed run whether another program was written next."""
    events = rollout["tool_events"]
    return [
        after["tool"] == "write"
        for event, after in zip(events, events[1:])
        if event["tool"] == "run" and event["result"] != "ok"
    ]


def measure(rollouts):
    if not rollouts:
        return {}
    events = [event for rollout in rollouts for event in rollout["tool_events"]]
    runs = [sum(e["tool"] == "run" for e in rollout["tool_events"]) for rollout in rollouts]
    tried = [answer for rollout in rollouts for answer in retries(rollout)]
    metrics = {
        "run_share": sum(count > 0 for count in runs) / len(runs),
        "runs_per_attempt": sum(runs) / len(runs),
        "refused_share": sum(not event["ok"] for event in events) / max(len(events), 1),
    }
    if tried:
        metrics["retry_rate"] = sum(tried) / len(tried)
    return metrics
