"""Every model call: engines for local weights, behind the one `Gateway` protocol.

Five rooms: `asking` (the one client), `providers` (each an SDK), `policy` (the acting policy behind
a server), `fleet` (servers that a training samples from) and `engines` (local weights). Engines
need torch, so nothing is re-exported here: they are imported in the policy child and nowhere else.
"""
