"""What maintainers run for what ships: warm starts of the nano suites, locks. Not installed."""
