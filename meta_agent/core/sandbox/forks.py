"""The host's end of a process that forks others: sandboxes, or policy children.

Promises: a fork can be waited for and killed like a program that was started here. If the process
that forks hangs or dies, so do its forks, and an OSError holds the end of its output.
Not covered: what it runs (`inside/forks.py` is its loop), and which environment it sees.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

from meta_agent.core.processes import Popen, TimeoutExpired

_ANSWER_BYTES: Final = 1 << 12
_LAST_WORDS_BYTES: Final = 8 << 10
_FIRST_LOOK_SEC, _LAST_LOOK_SEC = 0.0005, 0.02


class ForkServer:
    """A child process that forks others quickly, and the socket for orders to it."""

    def __init__(
        self, begin: Callable[[int, IO[bytes]], Popen[bytes]], patience_sec: float = 120.0
    ) -> None:
        """`begin` starts the process with a descriptor of its orders, and a file for its errors.

        An answer that takes longer than `patience_sec` ends it.
        """
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.settimeout(patience_sec)
        self._owner, self._lock = os.getpid(), threading.Lock()  # one order and answer at a time
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.forks: set[int] = set()  # the process ids of those that have not ended
        with theirs:
            self.process = begin(theirs.fileno(), self._errors)
        atexit.register(self.close)

    def ask(self, order: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Sends an order as JSON, with open file descriptors, and returns the server's answer.

        Raises OSError if the order failed or the server is gone.
        """
        answer = b""
        with self._lock, contextlib.suppress(TimeoutError):
            socket.send_fds(self._orders, [json.dumps(order).encode()], descriptors)
            answer = self._orders.recv(_ANSWER_BYTES)
        if not answer:
            raise ConnectionError(f"the process that forks others ended: {self.close()}")
        reply: dict[str, Any] = json.loads(answer)
        if "error" in reply:
            raise OSError(reply["error"])
        return reply

    def close(self) -> str:
        """Ends the server and all that it forked. Returns the server's last output."""
        with self._lock:
            if os.getpid() != self._owner or self._errors.closed:
                return ""
            self._orders.close()
            self.process.kill()
            code = self.process.wait()
            with self._errors as errors:
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
                last_words = errors.read().decode("utf-8", "replace").strip()
            return f"{last_words} (code {code})"


class Forked:
    """A process from a fork server, with some methods of `subprocess.Popen`."""

    def __init__(self, server: ForkServer, order: dict[str, Any], stdio: Sequence[int]) -> None:
        self._server = server
        self.pid: int = server.ask(order, stdio)["pid"]
        server.forks.add(self.pid)
        self.returncode: int | None = None
        self._lock = threading.RLock()  # an end is told once, and no other process is killed

    def poll(self) -> int | None:
        """Returns the process's exit code, None while it runs, or -9 if the fork server is gone."""
        with self._lock:
            if self.returncode is None:
                try:
                    self.returncode = self._server.ask({"ended": self.pid})["code"]
                except OSError:
                    self.returncode = -signal.SIGKILL
                if self.returncode is not None:
                    self._server.forks.discard(self.pid)
            return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        """Waits for the process to end and returns its exit code.

        Raises TimeoutExpired after `timeout` seconds.
        """
        give_up, pause = time.monotonic() + timeout, _FIRST_LOOK_SEC
        while (code := self.poll()) is None:
            if time.monotonic() > give_up:
                raise TimeoutExpired("a forked process", timeout)
            time.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK_SEC)
        return code

    def kill(self) -> None:
        """Kills the process, unless it has ended."""
        with self._lock:
            if self.poll() is None:
                os.kill(self.pid, signal.SIGKILL)
