"""Estimates, intervals and tests: numbers in, numbers out."""
