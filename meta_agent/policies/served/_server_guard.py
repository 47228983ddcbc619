"""Runs a model server and dies with its starter: `python -I _server_guard.py COMMAND...`.

Stdlib only; started by `_server_process`, never imported. Its standard input is a pipe that the
starter holds. When the pipe ends, because it was closed or the starter was killed in any way, the
guard ends the server and everything that it started. A server that ends by itself ends the guard
with the same code. The starter's child only waits for the guard. Ray kills every child of a worker
by force when it ends the worker, and a process killed like that could not end the server.
Not covered: a guard that is itself killed by force.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE_SEC = 10.0
POLL_SEC = 0.2


def main(argv: list[str]) -> int:
    """Runs the server command `argv` until it ends, or until this process's stdin is closed.

    Returns the server's exit code, or 0 if it was still running.
    """
    guard = os.fork()
    if guard:
        return os.waitstatus_to_exitcode(os.waitpid(guard, 0)[1]) & 0xFF
    if sys.platform == "linux":  # processes that the server leaves behind become ours to end
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    server = os.posix_spawn(
        argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, 0)], setpgroup=0
    )
    while True:
        code = ended(server)
        if code is not None or starter_gone():
            end_all(server)
            return 0 if code is None else code


def starter_gone() -> bool:
    """Waits up to 0.2 seconds; returns True if the process that started this guard is gone."""
    readable, _, _ = select.select([0], [], [], POLL_SEC)
    return bool(readable) and not os.read(0, 64)


def ended(server: int) -> int | None:
    """Returns the exit code of the process `server`, 1 if unknown, or None while it runs."""
    try:
        process, status = os.waitpid(server, os.WNOHANG)
    except ChildProcessError:
        return 1
    return os.waitstatus_to_exitcode(status) & 0xFF if process else None


def end_all(server: int) -> None:
    """Sends SIGTERM to the process group `server`; after 10 seconds kills what still runs."""
    signal_group(server, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SEC
    while time.monotonic() < deadline and reap():
        time.sleep(POLL_SEC)
    signal_group(server, signal.SIGKILL)
    while reap():
        for child in children():
            os.kill(child, signal.SIGKILL)
        time.sleep(POLL_SEC / 4)


def signal_group(group: int, number: int) -> None:
    """Sends the signal `number` to the process group `group`, unless the group is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def reap() -> bool:
    """Collects the exit codes of ended children. Returns True if any child still runs."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def children() -> list[int]:
    """Returns the process ids of this process's children, adopted orphans included."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in listed.split()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
