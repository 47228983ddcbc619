"""Stops a run on a signal, and returns the reason why a run ended.

After Ctrl-C or SIGTERM the run finishes and records the present step, or saves the state of its
training (a seal). A second Ctrl-C ends the process at once. The same command resumes the run.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from meta_agent.core.errors import MetaAgentError

_ASK_TO_STOP: Final = (signal.SIGINT, signal.SIGTERM)
_STOPPING: Final = (
    b"\nstopping: the present step is finished first (a training with seals stops at its next "
    b"optimizer step); Ctrl-C again ends it now\n"
)


@contextmanager
def draining() -> Iterator[threading.Event]:
    """Yields an event that SIGINT or SIGTERM sets. A second SIGINT ends the process at once.

    Outside the main thread, nothing sets the event.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if number == signal.SIGTERM:  # schedulers send it to each process, and again
                return
            if os.isatty(2):
                os.write(2, b"\x1b[?25h")  # a live display had hidden the cursor
            os._exit(130)  # children die with us (PR_SET_PDEATHSIG); the journal is durable
        stop.set()
        # Not through the display: it may hold its lock in the very thread that we interrupt.
        os.write(2, _STOPPING)

    before = {number: signal.signal(number, on_signal) for number in _ASK_TO_STOP}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_REASONS: Final = {130: "interrupted", 4: "budget", 5: "infrastructure", 6: "parked", 7: "aborted"}


def exit_reason(error: BaseException) -> str:
    """Returns the word for an error that ended a run, such as `interrupted` or `bug`."""
    if isinstance(error, MetaAgentError):
        return _REASONS.get(error.exit_code, "error")
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "bug"
