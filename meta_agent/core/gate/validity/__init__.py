"""Validity checks: every detector, their table, and how an arm is compared with its baseline."""
