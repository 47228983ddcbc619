"""The verbs of the loop, one file each: they call the rooms and journal what came of it.

Every function takes the `Run` and plain records, does its work through `Run.once`, and can be
repeated: after a crash the recorded outcome comes back and nothing is done twice.
"""
