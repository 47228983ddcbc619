"""Policies behind a server: the gateway that asks them, and a vLLM server of this project."""
