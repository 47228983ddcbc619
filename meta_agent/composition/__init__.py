"""Builds a run from settings: looks up its extensions and passes them to the core."""
