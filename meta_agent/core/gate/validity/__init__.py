"""Validity: every detector, its table, and how it is told from what the baseline does itself."""
