"""Rollout events, in which a training gets its rollouts: their tasks, their time, their weights."""
