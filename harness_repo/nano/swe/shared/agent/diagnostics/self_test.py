"""Does the policy check its own work, and does it go on when a check fails?"""

NAME = "self_test"
LAYER = "behaviour"
THRESHOLDS = {
    "self_test_rate": {"warn": 0.5, "critical": 0.2, "direction": "below"},
    "tests_per_attempt": {"warn": 4.0, "critical": 6.0, "direction": "above"},
    "retry_rate": {"warn": 0.5, "critical": 0.2, "direction": "below"},
}


def failed_test(event):
    return event["tool"] == "test" and not event["result"].endswith("ok")


def retries(rollout):
    """Returns for each failed test whether the next call was an edit."""
    events = rollout["tool_events"]
    return [
        after["tool"] == "edit"
        for event, after in zip(events, events[1:])
        if failed_test(event)
    ]


def measure(rollouts):
    if not rollouts:
        return {}
    tests = [sum(e["tool"] == "test" for e in rollout["tool_events"]) for rollout in rollouts]
    tried = [answer for rollout in rollouts for answer in retries(rollout)]
    metrics = {
        "self_test_rate": sum(count > 0 for count in tests) / len(tests),
        "tests_per_attempt": sum(tests) / len(tests),
    }
    if tried:
        metrics["retry_rate"] = sum(tried) / len(tried)
    return metrics
