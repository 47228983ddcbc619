"""Hostile programs, by what they go for; see `tests.sandbox._conformance`."""
