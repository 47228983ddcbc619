"""Identifies a sandbox's owner: the installation, the user in it, and the process that opened it.

Promises: two installations (two users, two state folders) never share an identity. A process counts
as dead only if this machine can know it. Not covered: a state folder copied to another machine that
uses the same engine; there only the deadline label decides.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from meta_agent.core.errors import SandboxError
from meta_agent.core.workspace import read_small, state_dir

_STRANGERS: Final = range(1 << 20, 1 << 21)


def stranger_uid(among: range = _STRANGERS) -> int:
    """Returns a random user id from `among`, for the untrusted code of one sandbox."""
    return secrets.choice(among)


def install_id() -> str:
    """Returns this installation's random name. Raises SandboxError if its file is damaged."""
    return _read_or_make(state_dir() / "install-id")


@lru_cache
def _read_or_make(path: Path) -> str:
    if name := read_small(path):
        return name
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent) as draft:
        draft.write(uuid.uuid4().hex)
        draft.flush()
        # A link appears whole and loses to one that is there: two first starts agree on one name.
        with suppress(FileExistsError):
            os.link(draft.name, path)
    if name := read_small(path):
        return name
    raise SandboxError(
        f"{path}, which names this installation, is empty or damaged",
        kind="start",
        hint="remove that file, then run the command again",
    )


def holder_mark() -> str:
    """Returns a text that names this process, and no later process with the same process id."""
    return f"{_boot_id()}:{_pid_namespace()}:{os.getpid()}:{_start_time(os.getpid())}"


def holder_is_dead(mark: str) -> bool:
    """Returns True if the process that a mark (boot, PID namespace, id, start time) names is gone.

    Returns False if in doubt, for example about a process in another PID namespace.
    """
    try:
        boot, namespace, pid, started = mark.split(":")
        number = int(pid)
    except ValueError:
        return False
    if boot != _boot_id():
        return True
    return namespace == _pid_namespace() and _start_time(number) != started


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_time(pid: int) -> str:
    """Returns a process's start time from /proc/PID/stat, or "gone"."""
    with suppress(OSError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_bytes()
        return text.rpartition(b")")[2].split()[19].decode()
    return "gone"
