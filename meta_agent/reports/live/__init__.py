"""The page of a run while it goes on: a loopback server, the stored attempts, one small script.

`serve` answers; `Attempts` is the index behind the browser of attempts; `heat` is its map. The page
itself is that of `report --html`, from the same state.
"""
