"""One owner per ledger: an advisory file lock beside the database.

The kernel drops the lock when the owner dies, however it dies, so nothing has to be cleaned up
after a crash and a stale lock file means nothing.

Not covered: network file systems without working `flock`, and people who delete the lock file.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from meta_agent.errors import PreflightError


class OwnerLock:
    """Held from construction to `close`."""

    def __init__(self, ledger_path: Path) -> None:
        self._path = ledger_path.with_name(ledger_path.name + ".lock")
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = self._read_owner()
            os.close(self._fd)
            raise _already_owned(ledger_path, owner) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def _read_owner(self) -> str:
        return os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"

    def close(self) -> None:
        """Lets the next owner in. The file stays: removing it would race with a waiting owner."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _already_owned(ledger_path: Path, owner: str) -> PreflightError:
    return PreflightError(
        f"another run (process {owner}) is working in {ledger_path.parent}",
        hint=f"meta-agent status --workspace {ledger_path.parent}",
    )
