"""How the model works: programs it ran, those that failed, and how much it wrote."""

NAME = "working"
LAYER = "behaviour"
THRESHOLDS = {
    "failed_program_share": {"warn": 0.3, "critical": 0.6, "direction": "above"},
}


def programs(rollout):
    return [event for event in rollout["tool_events"] if event["tool"] == "python"]


def written(rollout):
    said = (m.get("content") or "" for m in rollout["messages"] if m.get("role") == "assistant")
    return sum(map(len, said))


def measure(rollouts):
    if not rollouts:
        return {}
    ran = [event for rollout in rollouts for event in programs(rollout)]
    metrics = {
        "calculated_share": sum(bool(programs(rollout)) for rollout in rollouts) / len(rollouts),
        "turns_mean": sum(rollout["turns"] for rollout in rollouts) / len(rollouts),
        "written_chars_mean": sum(map(written, rollouts)) / len(rollouts),
    }
    if ran:
        metrics["failed_program_share"] = sum(not event["ok"] for event in ran) / len(ran)
    return metrics
