"""Where trainings and evaluations run besides this process: on a Ray cluster."""
