"""One lock per step key: two threads that ask for one step get one piece of work.

Does not cover: two threads that nest the same two keys in opposite order (they would wait for each
other). Steps nest in one order: run, generation, candidate, arm.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from meta_agent.core.errors import IntegrityError


class StepLocks:
    """Which thread works on which step."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards both dictionaries; never held while waiting
        self._locks: dict[str, threading.Lock] = {}
        self._owners: dict[str, int] = {}

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Waits until no other thread works on `key`; refuses a step that asks for itself."""
        me = threading.get_ident()
        with self._guard:
            if self._owners.get(key) == me:
                raise IntegrityError(f"step {key} asks for itself while its work runs")
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._guard:
                self._owners[key] = me
            try:
                yield
            finally:
                with self._guard:
                    del self._owners[key]
