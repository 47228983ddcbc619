"""Listening to a stream with deadlines of our own, whatever SDK it comes through.

SDK and socket timeouts can't see a server that only sends keep-alive comments, bound a whole reply,
or tell the wait for the first event from a stall later. So a thread reads, and the caller waits on
a queue that holds few: for the first event, between events, and in total. What is given up has its
connection shut down, at whatever stage it is, and so the thread ends too.

Does not cover: connecting, which the SDKs time well.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Any

from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._wire import Cord

_WAITING_EVENTS = 2
"""Between reader and listener: one on the wire may be 2 MB, and twenty times that once parsed."""
_LOOK_AGAIN_SEC = 0.1


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Patience with one attempt. A long prompt on a slow machine takes minutes to its first token,
    and a model that thinks without showing it is silent for long."""

    connect_sec: float = 15.0
    first_sec: float = 300.0
    between_sec: float = 300.0
    total_sec: float = 1200.0

    @property
    def read_sec(self) -> float:
        """The SDK's own limit: only a backstop that ends the reading thread."""
        return max(self.first_sec, self.between_sec) + 5.0


class Line:
    """One stream: `listen` yields its events in time or raises; `typed` names the SDK's errors."""

    def __init__(
        self,
        open_stream: Callable[[], Iterable[Any]],
        timeouts: Timeouts,
        typed: Callable[[BaseException, bool], ProviderError],
    ) -> None:
        self._open_stream = open_stream
        self._timeouts = timeouts
        self._typed = typed
        self._inbox: Queue[tuple[str, Any]] = Queue(_WAITING_EVENTS)
        self._cord = Cord()
        self._given_up = threading.Event()
        self._over = False  # the reader is done: its connection is no longer ours to end
        self._stream: Any = None

    def listen(self) -> Generator[Any, None, None]:
        """Events in order. Raises ProviderError; the SDK's exception is never chained to it."""
        threading.Thread(target=self._read, name="model-stream", daemon=True).start()
        ends_at = time.monotonic() + self._timeouts.total_sec
        limit = self._timeouts.connect_sec + self._timeouts.first_sec
        try:
            while True:
                what, value = self._next(limit, ends_at)
                if what != "event":
                    self._over = True
                if what == "end":
                    return
                if what == "error":
                    raise value
                limit = self._timeouts.between_sec
                yield value
        finally:
            if not self._over:
                self._give_up()

    def _next(self, limit: float, ends_at: float) -> tuple[str, Any]:
        left = ends_at - time.monotonic()
        if left > 0:  # a server that never stops talking is over time, too
            with contextlib.suppress(Empty):
                return self._inbox.get(timeout=min(limit, left))
        if left <= limit:
            text = f"the reply was not whole after {self._timeouts.total_sec:g} s"
        else:
            text = f"the server said nothing for {limit:g} s"
        raise ProviderError(text, kind="timeout")

    def _read(self) -> None:
        began = whole = False
        try:
            with self._cord.held():
                self._stream = self._open_stream()
                for event in self._stream:
                    began = True
                    if not self._put("event", event):
                        break
                else:
                    whole = True
        except BaseException as error:  # whatever it is belongs to the caller's thread
            self._put("error", self._named(error, began))
        else:
            self._put("end", None)
        finally:
            self._close()
            if not whole:  # no SDK's word for it: a stream may be closed and its socket open
                self._cord.drop()

    def _put(self, what: str, value: Any) -> bool:
        """Waits for room; False once nobody listens."""
        while not self._given_up.is_set():
            try:
                self._inbox.put((what, value), timeout=_LOOK_AGAIN_SEC)
            except Full:
                continue
            return True
        return False

    def _named(self, error: BaseException, began: bool) -> ProviderError:
        try:
            return self._typed(error, began)
        except Exception as second:  # or the caller would wait for an answer in vain
            names = f"{type(error).__name__}, then {type(second).__name__}"
            return ProviderError(f"the SDK failed: {names}", kind="unknown")

    def _close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            with contextlib.suppress(Exception):
                close()

    def _give_up(self) -> None:
        """Ends the reading thread, wherever it waits."""
        self._given_up.set()
        self._cord.cut()
