"""Tells a git lock that this program's killed command left from a lock of somebody else.

Promises: while this process writes, a marker with its id is in the git directory. A lock file found
beside the marker of a dead process is a leftover and is removed. Without a marker it belongs to
somebody else, so we wait a moment and then report the file. Recovery may be repeated.
Does not cover: two live runs on one workspace; the ledger's owner lock excludes those.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meta_agent.core.errors import ConfigError

_MARKER = "meta-agent.busy"
_PATIENCE_SEC = 2.0


@contextmanager
def busy(git_dir: Path) -> Iterator[None]:
    """Marks, for the `with` block, that this process writes to the git directory."""
    marker = git_dir / _MARKER
    marker.write_text(str(os.getpid()), encoding="ascii")
    yield
    # It stays after an exception: git may have left a lock, and the next open clears both.
    marker.unlink(missing_ok=True)


def clear_locks(git_dir: Path) -> None:
    """Removes git's lock files that a killed meta-agent left. Any other lock raises ConfigError."""
    locks = _wait_for_none(git_dir)
    marker = git_dir / _MARKER
    if locks and not _ours(marker):
        raise ConfigError(
            f"{locks[0]} exists: another git command is running there, or was killed",
            hint=f"if none is running: rm {locks[0]}",
        )
    for lock in locks:
        lock.unlink(missing_ok=True)
    if marker.exists() and _ours(marker):
        marker.unlink(missing_ok=True)


def _wait_for_none(git_dir: Path) -> list[Path]:
    """Waits briefly for locks to go, as a killed command may still finish; returns the rest."""
    deadline = time.monotonic() + _PATIENCE_SEC
    while (locks := _locks(git_dir)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return locks


def _locks(git_dir: Path) -> list[Path]:
    return sorted([*git_dir.glob("*.lock"), *(git_dir / "refs").rglob("*.lock")])


def _ours(marker: Path) -> bool:
    """Returns True if the marker names this process or a dead one."""
    try:
        pid = int(marker.read_text(encoding="ascii"))
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (FileNotFoundError, ValueError, PermissionError):
        return False
    return pid == os.getpid()
