"""The page of a run while it goes on: a loopback server and one small script.

The page itself is that of `report --html`, from the same state.
"""
