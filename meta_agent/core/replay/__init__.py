"""Replay: stored rollouts are scored again under another reward or filter."""
