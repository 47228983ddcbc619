"""Command output without what differs between two sandboxes that did the same.

A prompt that varied would miss its record, and a resumed run would pay twice. Taken out: the folder
a process sandbox happens to have, memory addresses, how long test runners say they took, and from
long listings owners, link counts and what the file system says of folders. Dates are prevented
where they are made (see `Workbench.shell`). Not covered: the order in which file systems of
different kinds list a folder, and commands that print the time or a random number on purpose.
"""

from __future__ import annotations

import re
from typing import Final

HOME: Final = "/bench"
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_LISTED: Final = re.compile(
    r"^([bclps-][rwxsStT-]{9}|d[rwxsStT-]{9})[.+@]?[ ]+\d+[ ]+\S+[ ]+\S+[ ]+(\d+)", re.MULTILINE
)
_TOTAL: Final = re.compile(r"^total \d+$", re.MULTILINE)
_TOOK: Final = re.compile(r"\b(in|real|user|sys)([ \t]+)(\d+m)?\d+\.\d+ ?s\b")


class Steady:
    """Makes a sandbox's texts repeatable: models see a fixed path in place of its real folder."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def outgoing(self, command: str) -> str:
        """Returns a shell command with the sandbox's real folder in place of the fixed path."""
        return command.replace(f"{HOME}/", f"{self._root}/") if self._root else command

    def incoming(self, text: str) -> str:
        """Returns command output less what varies by sandbox: real folder, addresses, times."""
        if self._root:
            text = text.replace(self._root, HOME)
        text = _TOTAL.sub("total N", _LISTED.sub(_listed, text))
        return _TOOK.sub(r"\1\2N s", _ADDRESS.sub("0x...", text))


def _listed(row: re.Match[str]) -> str:
    return f"{row[1]} {'-' if row[1].startswith('d') else row[2]}"
