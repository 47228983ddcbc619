"""What has been measured already, so that an interrupted search goes on where it was.

`ahead` takes measurements under way side by side in the order in which they were asked for.

Promises: a line is either whole or ignored; measurements of another package, other settings or
another version of this code are never taken up. Does not cover: two searches with one output file
at the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import TypeVar

from meta_agent.core.protocols import JSON

Item = TypeVar("Item")
Value = TypeVar("Value")


class Journal:
    """Measurements by key, in a file beside the output until that is written."""

    def __init__(self, out: Path, settings: dict[str, JSON]) -> None:
        self.path = out.with_name(f".{out.name}.measured")
        stamp = json.dumps([settings, code_hash()], sort_keys=True)
        self._stamp = hashlib.sha256(stamp.encode()).hexdigest()
        self._lock = threading.Lock()  # guards _known and the file
        self._known = self._read()
        self.taken_up = len(self._known)

    def once(self, key: str, measure: Callable[[], JSON]) -> JSON:
        """The recorded measurement, or a new one, recorded."""
        with self._lock:
            if key in self._known:
                return self._known[key]
        value = measure()
        line = json.dumps([self._stamp, key, value]) + "\n"
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            self._known[key] = value
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return json.loads(json.dumps(value))

    def close(self) -> None:
        self.path.unlink(missing_ok=True)

    def _read(self) -> dict[str, JSON]:
        if not self.path.exists():
            return {}
        known: dict[str, JSON] = {}
        for line in self.path.read_text(encoding="utf-8").split("\n"):
            try:
                stamp, key, value = json.loads(line)
            except ValueError:
                continue  # cut off in the middle
            if stamp == self._stamp:
                known[key] = value
        return known


def code_hash() -> str:
    """Of everything here and of the grader: what a measurement depends on."""
    digest = hashlib.sha256()
    for package in ("tasks", "tasks.planting", "swe", "swe.grading"):
        for file in sorted(
            resources.files(f"meta_agent.domains.{package}").iterdir(), key=lambda item: item.name
        ):
            if file.name.endswith(".py"):
                digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def ahead(
    pool: ThreadPoolExecutor,
    width: int,
    wanted: Iterator[Item],
    measure: Callable[[Item], Value],
) -> Iterator[tuple[Item, Future[Value]]]:
    """Items with their measurements, `width` of them at a time.

    `wanted` is read as late as possible, so it may leave out what earlier results have made
    superfluous; a caller that decides in this order decides the same for every width.
    """
    waiting: deque[tuple[Item, Future[Value]]] = deque()
    try:
        while True:
            for item in wanted:
                waiting.append((item, pool.submit(measure, item)))
                if len(waiting) >= width:
                    break
            if not waiting:
                return
            yield waiting.popleft()
    finally:
        for _, result in waiting:
            result.cancel()
