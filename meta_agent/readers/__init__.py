"""Readers of rollouts from other tools, and the evidence that reports are made of."""
