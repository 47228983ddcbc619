"""Builds a run from its settings: opens what they name and passes it to the core."""
