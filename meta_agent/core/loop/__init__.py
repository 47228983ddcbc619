"""The steps of the loop: collect, propose, test, claim, promote, learn. Each is a file in `verbs`.

Every function takes the `Run` and plain records, does its work through `Run.once`, and may be
repeated: after a crash `once` returns the recorded outcome, and nothing is done twice.
"""
