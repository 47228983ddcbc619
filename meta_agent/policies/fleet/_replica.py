"""Keeps one engine running: how many calls it gets, whether it is healthy, and its replacement.

Promises: an engine gets as many calls as it can run without a queue or a full cache; its own
reports decide that while it works. An engine is replaced if it ended, or if it has calls and makes
no progress for `stall_sec`. Then its calls fail (as infrastructure) and later ones wait. The next
engine starts on the current weights and never serves others. If an engine is lost `tries` times
without an answer in between, the run ends and can be resumed.
The lock (`_changed`) guards all fields; only the watching thread starts and ends engines.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from meta_agent.core.errors import ProviderError
from meta_agent.policies.fleet._routes import Load, Routes

_log = logging.getLogger(__name__)
FIRST_WINDOW = 16
FULL_CACHE = 0.95
_NOTHING = Load(0, 0, 0, 0, 0, 0)


class Engine(Protocol):
    """A running model server to which model calls are sent."""

    routes: Routes

    @property
    def ended(self) -> str | None:
        """Returns a text on how the server ended, or None while it runs."""
        ...

    def close(self) -> None: ...


Launch = Callable[[int, Path, int], Engine]
"""Starts an engine and returns it once it is healthy. Raises ProviderError if it does not start.

Its arguments are the engine's number, the model's folder, and the largest rank of adapters that
the engine reserves room for (0: none)."""


class Started(NamedTuple):
    """A newly started engine (vLLM server), with the weights and adapter rank it started with."""

    engine: Engine
    weights: Path
    rank: int


class Patience(NamedTuple):
    """Time limits of a vLLM server in seconds; `tries` lost engines in a row end a run."""

    poll_sec: float = 0.5
    stall_sec: float = 300.0  # without progress, before an engine is replaced
    call_sec: float = 3600.0  # for one model call
    update_sec: float = 300.0  # for loading weights or an adapter
    tries: int = 3  # losses in a row without an answer, before the run ends


class Replica:
    """Keeps one engine (a vLLM server) running, replaces it if it fails, and sends calls to it.

    The constructor's `start` starts an engine; `join` makes it load the current weights.
    """

    def __init__(
        self,
        number: int,
        start: Callable[[], Started],
        join: Callable[[Replica, Started], None],
        patience: Patience,
    ) -> None:
        self.number = number
        self.seats = 0  # rollouts whose calls all go to this engine
        self.names: set[str] = set()  # of the adapters that it has loaded
        self.replaced = 0
        self._start, self._join, self._patience = start, join, patience
        self._changed = threading.Condition()
        self._engine: Engine | None = None
        self._up = self._held = False
        self._doubts = self._allayed = 0  # calls that could not connect; those checked since
        self._calls = 0
        self._window = FIRST_WINDOW
        self._lost = 0  # engines lost since a call was last answered
        self._ever = False  # whether an engine ever came up
        self._failure: BaseException | None = None
        self._last = _NOTHING
        self._moved = 0.0  # time of the last progress
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name=f"engine-{number}")
        self._thread.start()

    @property
    def up(self) -> bool:
        with self._changed:
            return self._up

    @property
    def failed(self) -> bool:
        """Returns True if the engine (vLLM server) is gone and will not be replaced."""
        with self._changed:
            return self._failure is not None

    @property
    def load(self) -> tuple[int, int]:
        """Returns how many model calls the engine runs now, and how many it may run at once."""
        with self._changed:
            return self._calls, self._window

    def wait_up(self) -> None:
        """Waits until the engine serves. Raises its last error if it is gone and not replaced."""
        with self._changed:
            self._changed.wait_for(lambda: self._up or self._failure)
            self._raise_failure()

    @contextmanager
    def call(self) -> Iterator[Routes]:
        """Waits until the engine is up and has capacity, then yields its HTTP client for one call.

        Raises the engine's last error if it is gone and will not be replaced.
        """
        with self._changed:
            self._changed.wait_for(self._admits)
            self._raise_failure()
            engine = self._engine
            assert engine is not None, "an engine that is up is there"
            self._calls += 1
        try:
            yield engine.routes
            with self._changed:
                self._lost = 0
        except ProviderError as error:
            with self._changed:
                # The engine may be gone, so other calls wait until the next check.
                self._doubts += error.kind == "connection"
            raise
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[Routes | None]:
        """Blocks new calls, waits for those in progress, and yields the engine's HTTP client.

        Yields None if no engine is up. New calls go on after the `with` block.
        """
        with self._changed:
            self._held = True
            self._changed.wait_for(lambda: not self._calls or not self._up or self._failure)
            engine = self._engine if self._up else None
        try:
            yield engine.routes if engine else None
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()

    def routes(self) -> Routes | None:
        """Returns the engine's HTTP client, or None if no engine is up."""
        with self._changed:
            return self._engine.routes if self._engine and self._up else None

    def serve(self, engine: Engine) -> None:
        """Sends all further calls to an engine that has loaded the current policy version."""
        with self._changed:
            self._engine, self._window, self._last = engine, FIRST_WINDOW, _NOTHING
            self._up, self._ever, self._allayed = True, True, self._doubts
            self._moved = time.monotonic()
            self._changed.notify_all()

    def replace(self, why: str, *, lost: bool = True) -> None:
        """Ends the engine for the reason `why`; a watching thread then starts another engine.

        If `lost`, this counts as a failure; after `Patience.tries` in a row no engine is started.
        """
        with self._changed:
            if not self._up:
                return
            self._up, engine = False, self._engine
            self._lost += lost
            self.replaced += lost
            self.names.clear()
            self._changed.notify_all()
        _log.warning("engine %d is replaced: %s", self.number, why)
        if engine is not None:
            engine.close()

    def close(self) -> None:
        """Ends the engine for good. Waiting calls fail with ProviderError."""
        self._closed.set()
        with self._changed:
            self._failure = self._failure or ProviderError(
                "the engine was closed while a call waited for it", billed="no"
            )
            self._up, engine, self._engine = False, self._engine, None
            self._changed.notify_all()
        if engine is not None:
            engine.close()
        self._thread.join()

    def _admits(self) -> bool:
        well = self._up and not self._held and self._doubts == self._allayed
        free = well and self._calls < self._window
        return free or self._failure is not None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _watch(self) -> None:
        try:
            while not self._closed.is_set():
                if not self.up:
                    self._bring_up()
                elif not self._closed.wait(self._patience.poll_sec):
                    self._look()
        except BaseException as error:
            self._give_up(error)

    def _bring_up(self) -> None:
        """Starts another engine. Raises ProviderError after too many losses in a row."""
        if self._lost >= self._patience.tries:
            raise ProviderError(
                f"engine {self.number} ended {self._lost} times in a row without an answer",
                kind="breaker",
                billed="no",
                hint=f"read logs/engine-{self.number}.log in the workspace, then run the same "
                "command again: it resumes",
            )
        started: Started | None = None
        try:
            started = self._start()
            self._join(self, started)
        except ProviderError as error:
            if started is not None:
                started.engine.close()
            if not self._ever:
                raise
            _log.warning("engine %d did not start, and another is started: %s", self.number, error)
            with self._changed:
                self._lost += 1
        if self._closed.is_set() and started is not None:
            started.engine.close()

    def _look(self) -> None:
        """Checks whether the engine is healthy, and how many calls it can take."""
        engine = self._engine
        if engine is None or engine.ended:
            self.replace(f"it ended: {engine.ended if engine else 'it was closed'}")
            return
        load, doubts = None, self._doubts  # later doubts are for the next check
        with suppress(ProviderError):
            load = engine.routes.load(self._patience.stall_sec)
        with self._changed:
            now, before = time.monotonic(), self._last
            if load is not None:
                self._allayed = doubts
                if not self._calls or load[-2:] != before[-2:]:
                    self._moved = now
                self._window = next_window(self._window, load, before.preempted)
                self._last = load
                self._changed.notify_all()
            idle_sec = now - self._moved
        if idle_sec > self._patience.stall_sec:
            self.replace(f"it has calls and made no progress for {idle_sec:.0f} s")

    def _give_up(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._up = False
            self._changed.notify_all()
        if self._engine is not None:
            self._engine.close()


def next_window(window: int, load: Load, preempted: float) -> int:
    """Returns how many calls an engine may have at once, by its newest report `load`.

    `window` is the limit so far. `preempted` is the count of preempted calls one report earlier.
    """
    running = max(1, int(load.running))
    if load.preempted > preempted or load.cache > FULL_CACHE:
        return max(1, min(window, running * 3 // 4))
    if load.waiting > max(2, running // 4):
        return min(window, running + int(load.waiting) // 2)
    if not load.waiting and running >= window * 3 / 4:
        return window + max(1, window // 2)
    return window
