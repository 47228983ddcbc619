"""What maintainers run to build what ships: the warm starts of the nano suites. Not installed."""
