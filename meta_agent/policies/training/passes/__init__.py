"""Passes through a model: which rows share a pass, and the processes that share passes."""
