"""Passes through a model: what goes through together, and the processes that share them."""
