"""The ways to search (`--strategy`): `strategies.py` is their table, each is a class."""
