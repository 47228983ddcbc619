"""Engines that sample for a training: their weights (`publishing`, `untied`) and their
conversations (`speaker`)."""
