"""Stored rollouts under another reward or filter."""
