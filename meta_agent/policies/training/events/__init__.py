"""Rollout events of a training: their tasks, their time, and their weights."""
