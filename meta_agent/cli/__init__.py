"""The command line: one file per group of commands, and no logic in any of them.

Importing it pulls in Typer and nothing else; each command imports what it needs when it runs.
"""

from meta_agent.cli._app import command, main

__all__ = ["command", "main"]
