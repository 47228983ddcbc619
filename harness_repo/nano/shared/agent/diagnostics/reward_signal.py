"""Does the reward teach anything, and does it teach the right thing?

`order_violations` counts pairs within a group in which an unsolved attempt is paid at least as much as
a solved one: a reward with many of them pays for something else than solving.
"""

from collections import defaultdict

NAME = "reward_signal"
LAYER = "signal"
THRESHOLDS = {
    "dead_group_ratio": {"warn": 0.6, "critical": 0.9, "direction": "above"},
    "reward_spread": {"warn": 0.15, "critical": 0.03, "direction": "below"},
    "order_violations": {"warn": 0.05, "critical": 0.25, "direction": "above"},
}


def total(rollout):
    weights = rollout.get("weights") or {}
    return sum(weights.get(name, 1.0) * value for name, value in rollout["rewards"].items())


def groups_of(rollouts):
    """Returns the rewarded attempts by group, as (reward, solved) pairs."""
    groups = defaultdict(list)
    for rollout in rollouts:
        if rollout.get("rewards") and rollout.get("outcome") is not None:
            groups[rollout["group_id"]].append((total(rollout), rollout["outcome"]))
    return [group for group in groups.values() if len(group) > 1]


def spread(group):
    """Returns the standard deviation of a group's rewards."""
    rewards = [reward for reward, _ in group]
    mean = sum(rewards) / len(rewards)
    return (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5


def violations(groups):
    """Returns the share of (solved, unsolved) pairs that the reward ranks wrongly."""
    pairs = [
        bad >= good
        for group in groups
        for good, solved in group
        if solved
        for bad, other in group
        if not other
    ]
    return sum(pairs) / len(pairs) if pairs else 0.0


def measure(rollouts):
    groups = groups_of(rollouts)
    if not groups:
        return {}
    spreads = [spread(group) for group in groups]
    return {
        "dead_group_ratio": sum(value < 1e-6 for value in spreads) / len(spreads),
        "reward_spread": sum(spreads) / len(spreads),
        "order_violations": violations(groups),
    }
