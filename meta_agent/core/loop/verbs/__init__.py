"""The verbs of the loop, one file each: they call the rooms and journal what came of it."""
