"""Where trainings run besides this process: a Ray cluster."""
