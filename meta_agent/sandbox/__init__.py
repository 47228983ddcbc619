"""Sandboxes: one protocol, two backends, one worker inside.

`open_sandbox` gives a `Sandbox` (see `meta_agent.protocols`).
"""

from meta_agent.sandbox._process import open_process

__all__ = ["open_process"]
