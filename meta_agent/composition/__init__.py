"""Builds a run from settings: it looks up extensions and hands them to the core."""
