"""Stored rollouts under another reward, filter, ceiling or set of diagnostics."""
