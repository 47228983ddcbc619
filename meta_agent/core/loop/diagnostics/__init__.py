"""Judges diagnostics: which of the numbers that they measure foretell clean success."""
