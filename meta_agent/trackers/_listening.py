"""Runs each listener of a run (a tracker or a URL) in a thread; its first error ends it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, Self

from meta_agent.core.config import TRACKER_NAMES
from meta_agent.core.distribution import install
from meta_agent.core.errors import PreflightError
from meta_agent.reports.terminal.display import Event
from meta_agent.trackers._notify import ENDED, notify
from meta_agent.trackers._tracker import Place, Tracker, by_trl, open_tracker

PATIENCE_SEC: Final = 60.0
"""How many seconds the end of a run waits for a slow tracker or URL, such as MLflow's start."""
_Tell = Callable[[Event], None]


def require_trackers(names: Sequence[str]) -> None:
    """Raises PreflightError if the package of a named tracker is not installed."""
    for name in names:
        if name in TRACKER_NAMES and find_spec(name) is None:
            raise PreflightError(
                f"--log {name}: the package {name} is not installed",
                hint=f"{install(name)}, or leave --log {name} out",
            )


@contextmanager
def listening(
    place: Place, names: Sequence[str], url: str | None, warn: Callable[[str], None]
) -> Iterator[_Tell]:
    """Starts the named trackers, and yields a function that sends each of them an event.

    `url` gets the run's end and its waits for a person. At the end, slow listeners have a minute.
    `warn` receives the errors of trackers and `url` as text.
    """
    posts = [_Post(f"--log {name}", partial(_Tracked.opened, name, place), warn) for name in names]
    if url:
        posts.append(_Post("--notify", partial(_Called, url, place.run), warn))

    def tell(event: Event) -> None:
        for post in posts:
            post.put(event)

    try:
        yield tell
    finally:
        for post in posts:
            post.close()


class _Tracked:
    """Sends the numbers of a run's events to a tracker."""

    @classmethod
    def opened(cls, name: str, place: Place) -> Self:
        return cls(open_tracker(name, place))

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._verdicts = 0

    def hear(self, event: Event) -> None:
        numbers = {name: float(number) for name, number in event.data.items() if _is_number(number)}
        if event.kind == "metric":
            step = int(numbers.pop("step"))
            self._tracker.log(event.text, step, by_trl(numbers))
        elif event.kind in ("verdict", "ended") and numbers:
            self._verdicts += 1
            series = {f"search/{name}": value for name, value in numbers.items()}
            self._tracker.log(None, self._verdicts, series)

    def close(self) -> None:
        self._tracker.close()


class _Called:
    """Posts a run's end, or its wait for a person, to the user's URL."""

    def __init__(self, url: str, run: str) -> None:
        self._url, self._run = url, run

    def hear(self, event: Event) -> None:
        if event.kind == "waiting":
            notify(self._url, self._run, "waiting", f"waits for a person: {event.text}")
        elif event.kind == "ended":
            words = ENDED.get(event.text, f"ended: {event.text}")
            notify(self._url, self._run, event.text, words)

    def close(self) -> None: ...


class _Post:
    """The queue and the thread of a listener."""

    def __init__(self, name: str, opened: Callable[[], Any], warn: Callable[[str], None]) -> None:
        self._name, self._opened, self._warn = name, opened, warn
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._off = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        if not self._off:
            self._queue.put(event)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(PATIENCE_SEC)
        if self._thread.is_alive():
            self._warn(f"{self._name} did not answer in {PATIENCE_SEC:.0f} s; the run goes without")

    def _run(self) -> None:
        try:
            listener = self._opened()
            while (event := self._queue.get()) is not None:
                listener.hear(event)
            listener.close()
        except Exception as error:  # whatever a tracker raises, the run goes on
            self._off = True
            why = " ".join(str(error).split())[:200]
            self._warn(f"{self._name} is off from here on: {type(error).__name__}: {why}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
