"""Validity checks: every detector, the table of them, and how an arm is compared with its
baseline.
"""
