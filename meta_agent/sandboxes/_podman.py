"""Podman's service, which answers Docker's calls as an ordinary user while this process lives.

Promises: if `CONTAINER_HOST`, podman's own variable, names a service, that one is used.
Otherwise one is started at the first call, on a socket in a folder that only this user may
enter, and ends with this process. Not covered: a service on another machine, which could not
read the list of system calls.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

from meta_agent.core.errors import SandboxError
from meta_agent.sandboxes._names import FOLDER_PREFIX, HOLDER_FILE
from meta_agent.sandboxes._owner import holder_mark

_PRIVATE: Final = "service"
_START_SEC: Final = 60.0
_LOOK_SEC: Final = 0.05
_lock = threading.Lock()  # one folder, and one service in it


def address() -> str:
    """Returns the address at which podman answers Docker's calls; starts its service if needed.

    Raises SandboxError if podman cannot be started.
    """
    if host := os.environ.get("CONTAINER_HOST"):
        return host
    with _lock:
        return f"unix://{_service()}"


def file_with(text: str) -> Path:
    """Returns a file with that text, since podman reads a file where Docker takes the text."""
    with _lock:
        return _written(text)


@lru_cache
def _written(text: str) -> Path:
    path = _folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    path.write_text(text, encoding="utf-8")
    return path


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Returns a folder that is removed with this process, or by `reap` after a kill -9.

    Others may read files in it whose names they know, as a service of another user must. Nobody
    else can enter the socket's folder.
    """
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    folder.chmod(0o711)
    (folder / _PRIVATE).mkdir(mode=0o700)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / HOLDER_FILE).write_text(holder_mark(), encoding="ascii")
    return folder


@lru_cache(maxsize=1)
def _service() -> Path:
    from meta_agent.sandboxes._process import kill_tree, start_service

    if shutil.which("podman") is None:
        raise SandboxError(
            "podman is not installed",
            kind="engine",
            hint="run apt-get install podman uidmap catatonit",
        )
    socket, log = _folder() / _PRIVATE / "socket", _folder() / _PRIVATE / "log"
    argv = ["podman", "system", "service", "--time", "0", f"unix://{socket}"]
    child = start_service(argv, log)
    atexit.register(kill_tree, child)
    until = time.monotonic() + _START_SEC
    while not socket.exists() and child.poll() is None and time.monotonic() < until:
        time.sleep(_LOOK_SEC)
    if not socket.exists():
        kill_tree(child)
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        detail = "; ".join(lines[-3:]) or f"it did not answer within {_START_SEC:g} s"
        raise SandboxError(
            f"podman does not start: {detail[-600:]}",
            kind="engine",
            hint="make `podman info` work for this user first (docs/security.md)",
        )
    return socket
