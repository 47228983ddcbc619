"""Hostile programs, by what they go for; see `meta_agent.sandbox.conformance`."""
