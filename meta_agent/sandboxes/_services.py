"""Sockets of other programs: engines, and those that this process starts (podman, Harbor's bridge).

Promises: A service is started at the first call, on a socket in a folder that only this user may
enter. It ends with this process, also at a kill -9; at a normal end it is asked first. If
`CONTAINER_HOST`, podman's own variable, names a service, that one is used. Not covered: podman on
another machine, which could not read the list of system calls.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import SandboxError
from meta_agent.core.processes import Popen, TimeoutExpired
from meta_agent.sandboxes._names import FOLDER_PREFIX, HOLDER_FILE
from meta_agent.sandboxes._owner import holder_mark

_PRIVATE: Final = "service"
FORWARD: Final = (
    "forward its socket: ssh -fNL /tmp/engine.sock:/var/run/docker.sock USER@HOST && "
    "export DOCKER_HOST=unix:///tmp/engine.sock"
)
_START_SEC: Final = 60.0
_END_SEC: Final = 60.0
_LOOK_SEC: Final = 0.05
_lock = threading.Lock()  # one folder, and in it one service of each name and variables
_services: dict[tuple[object, ...], tuple[Popen[bytes], Path]] = {}


def podman_address() -> str:
    """Returns the address of podman's service, which speaks Docker's API; starts it if needed.

    Raises SandboxError if podman cannot be started.
    """
    if host := os.environ.get("CONTAINER_HOST"):
        return host
    if shutil.which("podman") is None:
        raise SandboxError(
            "podman is not installed",
            kind="engine",
            hint="run apt-get install podman uidmap catatonit",
        )
    path = socket_of(
        "podman",
        lambda path: ["podman", "system", "service", "--time", "0", f"unix://{path}"],
        hint="make `podman info` work for this user first",
    )
    return f"unix://{path}"


def file_with(text: str) -> Path:
    """Writes a text to a temporary file and returns its path; equal texts share a file."""
    with _lock:
        return _written(text)


@lru_cache
def _written(text: str) -> Path:
    path = _folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    path.write_text(text, encoding="utf-8")
    return path


def socket_of(
    name: str,
    argv_at: Callable[[Path], list[str]],
    *,
    hint: str,
    variables: Mapping[str, str] | None = None,
) -> Path:
    """Starts the service `name` unless it runs, and returns its socket file.

    `argv_at(path)` returns the command that serves at a path. Raises SandboxError, with `hint` and
    the end of the log, if the service does not start.
    """
    key = (name, *sorted((variables or {}).items()))
    with _lock:
        if key not in _services or _services[key][0].poll() is not None:
            _services[key] = _started(name, argv_at, hint, variables)
        return _services[key][1]


def _started(
    name: str, argv_at: Callable[[Path], list[str]], hint: str, variables: Mapping[str, str] | None
) -> tuple[Popen[bytes], Path]:
    from meta_agent.sandboxes._process import kill_tree, start_service

    place = Path(tempfile.mkdtemp(dir=_folder() / _PRIVATE))
    path, log = place / "socket", place / "log"
    child = start_service(argv_at(path), log, variables)
    atexit.register(_end, child)
    until = time.monotonic() + _START_SEC
    while not (answers := _listens(path)) and child.poll() is None and time.monotonic() < until:
        time.sleep(_LOOK_SEC)
    if not answers:
        kill_tree(child)
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        detail = "; ".join(lines[-3:]) or f"it did not answer within {_START_SEC:g} s"
        raise SandboxError(f"{name} does not start: {detail[-600:]}", kind="engine", hint=hint)
    return child, path


def _listens(path: Path) -> bool:
    """Returns True if a connection to the socket file is accepted; a file alone does not listen."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def _end(child: Popen[bytes]) -> None:
    from meta_agent.sandboxes._process import kill_tree

    child.terminate()
    with contextlib.suppress(TimeoutExpired):
        child.wait(_END_SEC)
    kill_tree(child)


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Returns a folder that is removed with this process, or by `reap` after a kill -9.

    Others may read files in it whose names they know, as a service of another user must. Nobody
    else can enter the folder of the sockets.
    """
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    folder.chmod(0o711)
    (folder / _PRIVATE).mkdir(mode=0o700)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / HOLDER_FILE).write_text(holder_mark(), encoding="ascii")
    return folder


def check_listens(address: str) -> None:
    """Raises OSError if nothing listens on a socket file, given as the address `http+unix://PATH`.

    Raises SandboxError for an `ssh` address. Other addresses are not checked.
    """
    scheme, _, path = address.partition("://")
    if scheme == "ssh":
        raise SandboxError(
            f"{address}: an engine cannot be reached over ssh directly", kind="engine", hint=FORWARD
        )
    if scheme != "http+unix":
        return
    with socket.socket(socket.AF_UNIX) as ours:
        ours.settimeout(_START_SEC)
        try:
            ours.connect(path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error


def unwrap_socket(raw: Any) -> socket.socket:
    """Returns a plain socket for a stream of the Docker SDK, whose own object is closed.

    Raises SandboxError if the stream is encrypted.
    """
    inner = getattr(raw, "_sock", raw)
    if not isinstance(inner, socket.socket) or isinstance(inner, ssl.SSLSocket):
        raise SandboxError(
            "a Docker engine behind TLS cannot be reached directly", kind="engine", hint=FORWARD
        )
    plain = inner.dup()
    raw.close()
    inner.close()
    return plain
