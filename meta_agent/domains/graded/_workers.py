"""Runs a user's grader in processes: each serves one attempt at a time, with a time limit.

Promises: a grader that raises, hangs or ends its process raises a `GraderError`. The runner records
that as a failure of the verifier, never as a score of zero. A process that was killed or has died
is not used again. What the grader prints is thrown away.

Does not cover: what the grader may do. It is the user's own code, with the user's rights, but
without their keys (`core.processes`).
"""

from __future__ import annotations

import contextlib
import json
import selectors
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import MetaAgentError
from meta_agent.core.ledger.waiting import waiting
from meta_agent.core.processes import DEVNULL, PIPE, start
from meta_agent.core.protocols import JSON

GUEST: Final = Path(__file__).with_name("grader_guest.py")
LOAD_SEC: Final = 120.0
GRADE_SEC: Final = 60.0
TRY_ALONE: Final = "try the grader alone: meta-agent tasks check FILE --grade FILE.py"
_READ_BYTES: Final = 1 << 16
_MAX_REPLY_BYTES: Final = 256 << 20


class GraderError(MetaAgentError):
    """Raised if a user's grader fails to grade. The attempt then has no outcome; it is not zero."""

    exit_code = 2


class Worker:
    """A process that runs a user's grader. Only one thread may use it at a time."""

    def __init__(self, spec: Mapping[str, JSON], python: str) -> None:
        self._name = str(spec.get("name") or spec.get("path") or spec.get("module"))
        command = [python, "-B", "-u", str(GUEST)]
        also = ("PYTHONPATH", "VIRTUAL_ENV")
        # Sets of texts have one order in every process, so a grader repeats itself.
        fixed = {"PYTHONHASHSEED": "0"}
        self._process = start(
            command, also=also, variables=fixed, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        self.alive = True
        try:
            self.facts: JSON = self.ask("load", LOAD_SEC, spec=dict(spec))
        except BaseException:
            self.close()
            raise

    def ask(self, op: str, seconds: float, **arguments: JSON) -> JSON:
        """Returns the reply to a request `op`. Raises GraderError on failure or after `seconds`."""
        line = json.dumps({"op": op, **arguments}) + "\n"
        try:
            with waiting(
                "grader",
                f"`{op}` of the grader {self._name} (process {self._process.pid})",
                limit_sec=seconds,
                advice="At its limit the grader's process is killed, and the attempt counts as a "
                "failure of the grader.",
            ):
                reply = json.loads(self._exchange(line.encode(), seconds))
        except GraderError:
            self.close()
            raise
        except (OSError, ValueError) as problem:
            self.close()
            why = f"the process of the grader {self._name} broke: {problem}"
            raise GraderError(why, hint=TRY_ALONE) from problem
        if "error" in reply:
            why = f"the grader {self._name} failed: {_sentence(reply['error'])}"
            raise GraderError(why, hint=TRY_ALONE)
        return reply["ok"]

    def _exchange(self, line: bytes, seconds: float) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        sender = threading.Thread(target=self._send, args=(line,), daemon=True)
        sender.start()
        until, output = time.monotonic() + seconds, bytearray()
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            while not output.endswith(b"\n"):
                if not ready.select(max(0.0, until - time.monotonic())):
                    why = f"the grader {self._name} took over {seconds:g} s, which is its limit"
                    raise GraderError(why, hint=TRY_ALONE)
                part = self._process.stdout.raw.read(_READ_BYTES)  # type: ignore[attr-defined]
                if not part or len(output) > _MAX_REPLY_BYTES:
                    why = f"the grader {self._name} exited with {self._process.poll()}"
                    raise GraderError(why, hint=TRY_ALONE)
                output += part
        return bytes(output)

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it died: reading says so
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def close(self) -> None:
        """Kills the process. A second `close` does nothing."""
        self.alive = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Workers:
    """A pool of processes that run one user's grader. Each attempt leases one."""

    def __init__(self, spec: Mapping[str, JSON], python: str = sys.executable) -> None:
        self._spec, self._python = dict(spec), python
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._lock = threading.Lock()  # guards both lists
        weakref.finalize(self, _end, self._all)

    def lease(self) -> Worker:
        """Returns an idle or new process for one attempt; the caller has to give it back."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
        worker = Worker(self._spec, self._python)
        with self._lock:
            self._all[:] = [*(lent for lent in self._all if lent.alive), worker]
        return worker

    def give_back(self, worker: Worker) -> None:
        """Puts a leased process back into the pool, if it still lives."""
        if worker.alive:
            with self._lock:
                self._idle.append(worker)

    @contextlib.contextmanager
    def leased(self) -> Iterator[Worker]:
        """A context manager that leases a process on entry and gives it back on exit."""
        worker = self.lease()
        try:
            yield worker
        finally:
            self.give_back(worker)

    def close(self) -> None:
        """Ends all processes of the grader."""
        with self._lock:
            self._idle.clear()
            _end(self._all)


def _end(workers: list[Worker]) -> None:
    while workers:
        workers.pop().close()


def _sentence(error: Mapping[str, Any]) -> str:
    """Returns a grader's error as one line, which says so if the network did not answer."""
    message = str(error.get("message", "")).split("\n")[0][:300]
    if error.get("kind") == "refusal":
        return message
    where = f" (at {error['where']})" if error.get("where") else ""
    network = str(error.get("kind")) in _NETWORK
    prefix = "it asked the network and got no answer: " if network else ""
    return f"{prefix}{error.get('kind')}: {message}{where}"


_NETWORK: Final = frozenset(
    {
        *("gaierror", "URLError", "ConnectionError", "ConnectionRefusedError", "ConnectTimeout"),
        *("ConnectError", "ConnectionResetError", "APIConnectionError", "NewConnectionError"),
        *("ClientConnectorError", "MaxRetryError", "SSLError"),
    }
)
