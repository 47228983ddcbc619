"""Every call of a model behind a server.

`asking` is the client that a run uses: money, retries, the record, and replay. `providers` holds
one file for each SDK. Nothing is re-exported here, so that an import loads no SDK.
"""
