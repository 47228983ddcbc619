"""Every model call: engines for local weights, behind the one `Gateway` protocol.

Four rooms: `asking` (the one client), `providers` (each an SDK), `policy` (the acting policy behind
a server) and `engines` (local weights). Engines need torch, so nothing is re-exported here: they
are imported in the policy child and nowhere else.
"""
