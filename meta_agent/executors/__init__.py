"""Runs trainings and evaluations elsewhere than in this process: on a Ray cluster."""
