"""Search strategies (`--strategy`). Each is a class; `strategies.py` has the table of them."""
