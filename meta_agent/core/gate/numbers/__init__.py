"""Estimates, intervals and tests: pure functions of numbers."""
