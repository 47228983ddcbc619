"""Checks of task files: the attempts that are graded at each task, repeated tasks, the report."""
