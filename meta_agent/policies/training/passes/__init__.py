"""Passes through a model in training: which rows share a pass, and which process makes it."""
