"""What a search has measured already, so that an interrupted search goes on where it was.

Promises: a line is either whole or ignored. Measurements of another package, other settings or
another version of this code are never used again. Does not cover: two searches with one output file
at the same time.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TypeVar

from meta_agent.core.protocols import JSON

Candidate = TypeVar("Candidate")
Value = TypeVar("Value")


class Journal:
    """Stores measurements by key in a file, so that an interrupted search can go on."""

    def __init__(self, out: Path, settings: dict[str, JSON]) -> None:
        self._path = out.with_name(f".{out.name}.measured")
        stamp = json.dumps([settings, _code_hash()], sort_keys=True)
        self._stamp = hashlib.sha256(stamp.encode()).hexdigest()
        self._lock = threading.Lock()  # guards _values and the file
        self._values: dict[str, JSON] = {}
        for line in self._path.read_text("utf-8").split("\n") if self._path.exists() else ():
            with suppress(ValueError):  # cut off in the middle
                stamp, key, value = json.loads(line)
                self._values |= {key: value} if stamp == self._stamp else {}
        self.resumed = len(self._values)

    def once(self, key: str, measure: Callable[[], JSON]) -> JSON:
        """Returns the stored measurement of `key`, or calls `measure` and stores its result."""
        with self._lock:
            if key in self._values:
                return self._values[key]
        value = measure()
        line = json.dumps([self._stamp, key, value]) + "\n"
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            self._values[key] = value
            file.write(line)
        return json.loads(json.dumps(value))

    def close(self) -> None:
        """Deletes the file of measurements."""
        self._path.unlink(missing_ok=True)


def _code_hash() -> str:
    """Returns a hash of this folder and of the grader: what a measurement depends on."""
    digest = hashlib.sha256()
    for package in ("tasks", "swe", "swe.grading"):
        folder = resources.files(f"meta_agent.domains.{package}")
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def ahead(
    jobs: int, candidates: Iterator[Candidate], measure: Callable[[Candidate], Value]
) -> Iterator[tuple[Candidate, Value]]:
    """Yields candidates in order with their measurements, and measures `jobs` of them at a time.

    `candidates` is read as late as possible, so it may leave out what earlier results have made
    superfluous. A caller that decides in this order decides the same for every number of jobs.
    """
    waiting: deque[tuple[Candidate, Future[Value]]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                for candidate in candidates:
                    waiting.append((candidate, pool.submit(measure, candidate)))
                    if len(waiting) >= jobs:
                        break
                if not waiting:
                    return
                candidate, future = waiting.popleft()
                yield candidate, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
