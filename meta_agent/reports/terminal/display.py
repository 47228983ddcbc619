"""Progress while a run is under way: live on a terminal, plain lines elsewhere, always on stderr.

The loop speaks to one `Display`. `recorded` wraps it so that what a person saw is also what the
ledger holds, and the reports (see `state.py`) show the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TextIO

from meta_agent.core.display import Display as LoopDisplay
from meta_agent.core.display import Question, Reply
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import Verdict
from meta_agent.reports._format import within_run
from meta_agent.reports._sentences import progress
from meta_agent.reports.state import RunState, reduce


class Display(LoopDisplay, Protocol):
    """A display of the loop that also shows how a run ended."""

    def done(self, state: RunState) -> None:
        """The run ended. The summary itself is data: the command prints it on stdout."""
        ...


def open_display(stream: TextIO | None = None, *, live: bool | None = None) -> Display:
    """The display for this stream (stderr): live on a terminal, lines elsewhere."""
    stream = sys.stderr if stream is None else stream
    if _is_live(stream) if live is None else live:
        from meta_agent.reports.terminal._live import LiveDisplay

        return LiveDisplay(stream)
    from meta_agent.reports.terminal._lines import LineDisplay

    return LineDisplay(stream)


def _is_live(stream: TextIO) -> bool:
    odd_terminal = os.environ.get("TERM", "") in ("dumb", "") or bool(os.environ.get("CI"))
    return stream.isatty() and not odd_terminal


class _Recorded:
    """Writes phases, notes and metrics to the ledger, then shows them."""

    def __init__(self, inner: Display, ledger: Ledger, run: str) -> None:
        self._inner = inner
        self._ledger = ledger
        self._run = run

    def begin(self, headline: Sequence[str]) -> None:
        self._inner.begin(headline)

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        # Only a phase's beginning is a fact worth a synced write; progress inside it is not.
        if not done:
            self._ledger.event("phase", {"name": name, "detail": detail})
            so_far = progress(reduce(self._ledger, self._run))
            detail = f"{detail} ({so_far})" if so_far else detail
        self._inner.phase(name, detail, done=done, total=total)

    def note(self, text: str) -> None:
        self._ledger.event("note", {"text": text})
        self._inner.note(within_run(text, self._run))

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        self._ledger.event("metrics", {**values, "series": series, "step": step})
        self._inner.metric(series, step, values)

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        self._inner.verdict(within_run(candidate, self._run), factor, verdict, statement)

    def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
        return self._inner.ask(question, stopping)

    def done(self, state: RunState) -> None:
        self._inner.done(state)

    def close(self) -> None:
        self._inner.close()


def recorded(display: Display, ledger: Ledger, run: str) -> Display:
    """A display whose phases, notes and metrics are also events of a run that has begun."""
    return _Recorded(display, ledger, run)
