"""The sandbox protocol: the worker that runs inside a sandbox, and the link to it."""
