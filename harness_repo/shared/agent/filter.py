"""Which groups to train on. A group whose rewards are all equal carries no gradient."""

MIN_SPREAD = 1e-6  # of the rewards in a group


def weight(group):
    """Returns 1.0 to train on this group, 0.0 to drop it."""
    rewards = group["rewards"]
    return 1.0 if max(rewards) - min(rewards) > MIN_SPREAD else 0.0


def keep(groups):
    return [weight(group) for group in groups]
