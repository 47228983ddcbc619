"""How the model works: tools it called, calls that failed, and how much it wrote."""

NAME = "working"
LAYER = "behaviour"
THRESHOLDS = {
    "failed_call_share": {"warn": 0.3, "critical": 0.6, "direction": "above"},
}


def calls(rollout):
    return [event for event in rollout["tool_events"] if event["tool"] != "submit"]


def written(rollout):
    said = (m.get("content") or "" for m in rollout["messages"] if m.get("role") == "assistant")
    return sum(map(len, said))


def measure(rollouts):
    if not rollouts:
        return {}
    ran = [event for rollout in rollouts for event in calls(rollout)]
    metrics = {
        "used_tools_share": sum(bool(calls(rollout)) for rollout in rollouts) / len(rollouts),
        "turns_mean": sum(rollout["turns"] for rollout in rollouts) / len(rollouts),
        "written_chars_mean": sum(map(written, rollouts)) / len(rollouts),
    }
    if ran:
        metrics["failed_call_share"] = sum(not event["ok"] for event in ran) / len(ran)
    return metrics
