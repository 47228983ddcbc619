"""Rollout events of a training: what is rolled out, when, and under which weights."""
