"""Engines that sample for a training: their weights, and their conversations (`speaker`)."""
