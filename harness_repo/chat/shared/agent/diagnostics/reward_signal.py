"""Does the reward tell attempts at one task apart, and does it rank solved ones first?"""

from collections import defaultdict

NAME = "reward_signal"
LAYER = "signal"
THRESHOLDS = {
    "dead_group_ratio": {"warn": 0.6, "critical": 0.9, "direction": "above"},
    "misranked_share": {"warn": 0.05, "critical": 0.25, "direction": "above"},
}


def total(rollout):
    weights = rollout.get("weights") or {}
    return sum(weights.get(name, 1.0) * value for name, value in rollout["rewards"].items())


def groups_of(rollouts):
    groups = defaultdict(list)
    for rollout in rollouts:
        if rollout.get("rewards") and rollout.get("outcome") is not None:
            groups[rollout["group_id"]].append((total(rollout), clean(rollout)))
    return [group for group in groups.values() if len(group) > 1]


def clean(rollout):
    return bool(rollout["outcome"]) and not rollout["flags"]


def misranked(group):
    good = [reward for reward, solved in group if solved]
    bad = [reward for reward, solved in group if not solved]
    return [low >= high for high in good for low in bad]


def measure(rollouts):
    groups = groups_of(rollouts)
    if not groups:
        return {}
    rewards = [[reward for reward, _ in group] for group in groups]
    pairs = [wrong for group in groups for wrong in misranked(group)]
    metrics = {"dead_group_ratio": sum(max(r) - min(r) < 1e-6 for r in rewards) / len(rewards)}
    if pairs:
        metrics["misranked_share"] = sum(pairs) / len(pairs)
    return metrics
