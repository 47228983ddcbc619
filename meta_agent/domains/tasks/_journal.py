"""Stores what a search has measured, so that an interrupted search can continue.

Promises: a line that was cut off is ignored. Measurements of another package, with other settings
or by another version of this code are not used.

Does not cover: two searches with one output file at the same time.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from meta_agent.core.protocols import JSON
from meta_agent.domains._identity import code_hash

Candidate = TypeVar("Candidate")
Value = TypeVar("Value")


class Journal:
    """Stores measurements by key in a file, so that an interrupted search can go on."""

    def __init__(self, out: Path, settings: dict[str, JSON]) -> None:
        self._path = out.with_name(f".{out.name}.measured")
        code = code_hash(tasks="*", swe="*", swe__grading="*")
        stamp = json.dumps([settings, code], sort_keys=True)
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


def ahead(
    jobs: int, candidates: Iterator[Candidate], measure: Callable[[Candidate], Value]
) -> Iterator[tuple[Candidate, Value]]:
    """Yields candidates in order with their measurements, and measures `jobs` of them at a time.

    `candidates` is read as late as possible, so it may leave out candidates that earlier results
    made superfluous. The order does not depend on `jobs`.
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
