"""Policies behind a server: the gateway that asks the server, and a vLLM server of this project."""
