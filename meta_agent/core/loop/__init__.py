"""The steps of the loop: collect, propose, test, claim, promote, learn. One file each in `verbs`.

Every function takes the `Run` and plain records, does its work through `Run.once`, and can be
repeated. After a crash the recorded outcome comes back and nothing is done twice.
"""
