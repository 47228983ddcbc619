"""Locks: one process owns a ledger, and one thread works on a step.

The owner holds an advisory file lock beside the database. The kernel drops the lock when the owner
dies, however it dies. So nothing has to be cleaned up after a crash, and a stale lock file means
nothing.

Not covered: network file systems without working `flock`, and people who delete the lock file.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from meta_agent.core.errors import IntegrityError, PreflightError

_PATIENCE_SEC: Final = 0.2


class OwnerLock:
    """The file lock that makes this process the owner of a ledger.

    Raises PreflightError if another process holds it. The lock ends with the process.
    """

    def __init__(self, ledger_path: Path) -> None:
        self._path = ledger_path.with_name(ledger_path.name + ".lock")
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _acquire(self._fd):
            owner = _read_owner(self._fd)
            self.close()
            raise PreflightError(
                f"another run (process {owner}) is working in {ledger_path.parent}",
                hint=f"meta-agent status --workspace {ledger_path.parent}",
            )
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def close(self) -> None:
        """Releases the lock. The lock file stays. A second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def live_owner(ledger_path: Path) -> str | None:
    """Returns the id of the process that owns a ledger, or None if no process owns it now."""
    try:
        fd = os.open(ledger_path.with_name(ledger_path.name + ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read_owner(fd)
    else:
        return None
    finally:
        os.close(fd)


def _acquire(fd: int) -> bool:
    """Tries for a moment, since `live_owner` of another process holds the lock for an instant."""
    deadline = time.monotonic() + _PATIENCE_SEC
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        else:
            return True


def _read_owner(fd: int) -> str:
    return os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"


class StepLocks:
    """Locks by step key: if two threads ask for the same step, only one does its work."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards both dictionaries; never held while waiting
        self._locks: dict[str, threading.Lock] = {}
        self._owners: dict[str, int] = {}

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Holds the lock of the step `key` for the `with` block; waits for other threads first.

        Raises IntegrityError if this thread holds it already.
        """
        me = threading.get_ident()
        with self._guard:
            if self._owners.get(key) == me:
                raise IntegrityError(
                    f"step {key} began again while it ran; this is a bug, please report it"
                )
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._guard:
                self._owners[key] = me
            try:
                yield
            finally:
                with self._guard:
                    del self._owners[key]
