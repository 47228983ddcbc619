"""Who a role asks, in words, and a word while the server says nothing.

Promises: a server that is silent for five seconds is said once, and again only after it has spoken;
one that is slow by habit is given three times its slowest reply.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from meta_agent.core.errors import ProviderError

SILENT_SEC: Final = 5.0
_OF_HABIT: Final = 3
_NAMED: Final = ("auth", "not_found", "connection")


class Watch:
    """Over the calls of one role, from any thread."""

    def __init__(self, who: str, tell: Callable[[str], None]) -> None:
        self._who = who
        self._tell = tell
        self._lock = threading.Lock()  # guards the two below
        self._patience_sec = SILENT_SEC
        self._told = False

    @contextmanager
    def over_a_call(self) -> Iterator[None]:
        """Speaks up where the call is silent; its failure names whom it asked."""
        timer = threading.Timer(self._patience_sec, self._say, [self._patience_sec])
        timer.daemon = True
        timer.start()
        began = time.monotonic()
        try:
            yield
        except ProviderError as error:
            raise (_naming(error, self._who) if error.kind in _NAMED else error) from None
        finally:
            timer.cancel()
        with self._lock:
            took = time.monotonic() - began
            self._patience_sec = max(self._patience_sec, _OF_HABIT * took)
            self._told = False

    def _say(self, waited_sec: float) -> None:
        with self._lock:
            known, self._told = self._told, True
        if not known:
            self._tell(f"{self._who} has said nothing for {waited_sec:.0f} s; still waiting")


def _naming(error: ProviderError, who: str) -> ProviderError:
    return ProviderError(
        f"{who}: {error}",
        kind=error.kind,
        retry_after_sec=error.retry_after_sec,
        billed=error.billed,
        hint=error.hint,
    )
