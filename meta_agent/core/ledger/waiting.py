"""What a run waits for now, in a file of its workspace that other processes read.

A place that waits for something outside this process does so inside `waiting(...)`. Once a second a
`Watch` writes the longest waits to `waits.json`, and reports the one that holds the run up.

A wait counts as stalled after a tenth of its own time limit without progress.

Promises: entering a wait costs microseconds and opens no file. A reader tells a process that died
(nobody holds the ledger's lock) and a process that does not run (it stopped writing the file) from
a slow one. What a killed process last waited for stays readable.

Does not cover: which of several runs in one process waits. Each of their files names all waits, and
a run that records steps meanwhile is not called stalled.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from meta_agent.core.durable import part_of
from meta_agent.core.errors import MetaAgentError
from meta_agent.core.ledger._ledger import Ledger
from meta_agent.core.protocols import JSON
from meta_agent.core.workspace import read_small

WaitKind = Literal["model", "sandbox", "grader", "engine", "training", "agent"]

FILE: Final = "waits.json"
LEAST_PATIENCE_SEC: Final = 5.0
LIMIT_SHARE: Final = 0.1
LONG_SEC: Final = 20.0
"""After this time a wait that makes progress is reported, too."""
BEAT_SEC: Final = 1.0
FROZEN_SEC: Final = 30.0
"""A process that has not written its file for so many beats does not run."""
_MOST_WAITS: Final = 8
_MOST_BYTES: Final = 1 << 16


@dataclass(slots=True)
class Wait:
    """One wait of a thread for something outside its process. Times are seconds since the epoch."""

    kind: str  # a `WaitKind`; a reader takes other words from other versions
    subject: str
    """What is waited for, as a noun phrase for people."""
    limit_sec: float
    """The longest silence before the waiting place gives up."""
    advice: str
    """A sentence for people: what happens next, or what to look at."""
    command: str
    since: float
    moved_at: float
    """When the wait began or last made progress."""
    progress: str = ""
    owed: int = 0
    """Answers that this process owes the other side, which waits for them meanwhile."""

    @property
    def patience_sec(self) -> float:
        """Returns after how many seconds without progress the wait counts as stalled."""
        return max(LEAST_PATIENCE_SEC, self.limit_sec * LIMIT_SHARE)

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)

    @classmethod
    def parse(cls, row: JSON) -> Self:
        """Returns the wait in `row`. Raises ValueError, TypeError or KeyError for a bad field."""
        return cls(
            kind=str(row["kind"]),
            subject=str(row["subject"]),
            limit_sec=float(row["limit_sec"]),
            advice=str(row["advice"]),
            command=str(row["command"]),
            since=float(row["since"]),
            moved_at=float(row["moved_at"]),
            progress=str(row["progress"]),
        )


class Waits(NamedTuple):
    """The waits that a run's process last wrote to its workspace, and when it wrote them."""

    waits: tuple[Wait, ...] = ()  # the one with the longest silence first
    written_at: float | None = None  # None: nothing was written

    @classmethod
    def read(cls, folder: Path, run: str, owner: str | None) -> Self:
        """Returns the waits of a run that are stored in the workspace `folder`.

        They are empty if the file is missing or damaged, or if it was written by another process
        than `owner`. With None as `owner` the file of any process, even a dead one, is read.
        """
        try:
            row = json.loads(read_small(folder / FILE, _MOST_BYTES) or "{}")
            if row["run"] != run or owner not in (None, row["pid"]):
                return cls()
            return cls(tuple(map(Wait.parse, row["waits"])), float(row["at"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return cls()


def stalled(waits: Sequence[Wait], recorded_at: float, now: float) -> Wait | None:
    """Returns the stalled wait that has made no progress for the longest time, or None.

    A wait is stalled if it has made no progress, and the run has recorded nothing, for over
    `wait.patience_sec`. `recorded_at` is the time of the run's last record.
    """
    beyond = (wait for wait in waits if now - max(wait.moved_at, recorded_at) > wait.patience_sec)
    return min(beyond, key=lambda wait: wait.moved_at, default=None)


# --- where waits happen -------------------------------------------------------------------------

_lock = threading.Lock()  # guards the dictionary and what is in it
_open: dict[int, Wait] = {}
_numbers: Final = itertools.count()
_innermost: ContextVar[Wait | None] = ContextVar("wait", default=None)


@contextmanager
def waiting(
    kind: WaitKind, subject: str, *, limit_sec: float, advice: str, command: str = ""
) -> Iterator[Wait]:
    """Announces, for as long as the `with` block lasts, that this thread waits for `subject`.

    `limit_sec` is the silence after which the caller gives up. `advice` and `command` are shown to
    people.
    """
    now, number = time.time(), next(_numbers)
    wait = Wait(kind, subject[:200], limit_sec, advice, command, now, now)
    with _lock:
        _open[number] = wait
    outer = _innermost.set(wait)
    try:
        yield wait
    finally:
        _innermost.reset(outer)
        with _lock:
            del _open[number]


def moved(progress: str = "") -> None:
    """Records progress of this thread's innermost open wait; does nothing if there is none."""
    if (wait := _innermost.get()) is None:
        return
    with _lock:
        wait.moved_at = time.time()
        wait.progress = progress or wait.progress


def owe(wait: Wait, answers: int) -> None:
    """Adds `answers` to the number of answers that the other side of a wait still expects.

    A negative number subtracts. While answers are owed, the wait is not called stalled.
    """
    with _lock:
        wait.owed = max(0, wait.owed + answers)
        wait.moved_at = time.time()


def open_waits(now: float) -> list[Wait]:
    """Returns this process's waits of over a second, the longest without progress first.

    Waits whose other side waits for an answer from this process are left out.
    """
    with _lock:
        waits = [replace(wait) for wait in _open.values()]
    lasting = (wait for wait in waits if now - wait.since > BEAT_SEC and not wait.owed)
    return sorted(lasting, key=lambda wait: wait.moved_at)


# --- who writes them down -----------------------------------------------------------------------


class Watch:
    """A thread that writes this process's waits to a run's workspace every second, until closed.

    It calls `tell` with a wait that is stalled, or that lasts over 20 s and makes progress. The
    same wait is passed to `tell` again only when it has lasted about twice as long.
    """

    def __init__(self, ledger: Ledger, run: str, tell: Callable[[Wait], None]) -> None:
        self._ledger, self._run, self._tell = ledger, run, tell
        self._path = ledger.folder / FILE
        self._last, self._due_at = "", 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="waits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and deletes the workspace's file of waits."""
        self._closed.set()
        self._thread.join()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch(self) -> None:
        while True:
            now = time.time()
            waits = open_waits(now)
            # A full disk, or a ledger that another program holds, must not end the run here.
            with suppress(OSError):
                self._write(waits[:_MOST_WAITS], now)
            with suppress(MetaAgentError):
                self._report(waits, now)
            if self._closed.wait(BEAT_SEC):
                return

    def _write(self, waits: Sequence[Wait], now: float) -> None:
        """Replaces the file. It is not synced: after a power cut there is no run to wait."""
        rows = [wait.to_json() for wait in waits]
        row = {"run": self._run, "pid": str(os.getpid()), "at": now, "waits": rows}
        part = part_of(self._path)
        part.write_text(json.dumps(row), encoding="utf-8")
        part.replace(self._path)

    def _report(self, waits: Sequence[Wait], now: float) -> None:
        lasting = (wait for wait in waits if wait.progress and now - wait.since >= LONG_SEC)
        wait = stalled(waits, self._ledger.recorded_at, now) or next(lasting, None)
        if wait is None:
            return
        if wait.subject != self._last:
            self._last, self._due_at = wait.subject, now
        if now >= self._due_at:
            self._due_at = now + max(LEAST_PATIENCE_SEC, now - wait.since)
            self._tell(wait)
