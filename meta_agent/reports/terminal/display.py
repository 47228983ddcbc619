"""Progress while a run is under way, as lines on stderr.

The loop speaks to one `Display`. Others wrap it: `recorded` writes what a person saw to the ledger,
`TellingDisplay` tells callbacks and trackers, and `beside` names the run that a line is of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console

from meta_agent.core.display import Display, Standing
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import JSON, Verdict
from meta_agent.reports._format import within_run
from meta_agent.reports._sentences import standing_of
from meta_agent.reports.reducer import reduce
from meta_agent.reports.terminal._lines import LineDisplay
from meta_agent.reports.terminal.live import LiveDisplay


def open_display(stream: TextIO | None = None, *, live: bool = False) -> Display:
    """Returns a display that writes timestamped lines to `stream` (None: stderr).

    If `live` and stderr is a terminal, it draws one block there instead.
    """
    console = Console(stderr=True)
    if live and stream is None and console.is_terminal and not console.is_dumb_terminal:
        return LiveDisplay(console)
    return LineDisplay(sys.stderr if stream is None else stream)


class _Forwarding:
    """Passes everything on to another display."""

    def __init__(self, inner: Display) -> None:
        self._inner = inner

    def begin(self, headline: Sequence[str]) -> None:
        self._inner.begin(headline)

    def stand(self, standing: Standing) -> None:
        self._inner.stand(standing)

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        self._inner.phase(name, detail, done=done, total=total)

    def note(self, text: str) -> None:
        self._inner.note(text)

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        self._inner.metric(series, step, values)

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        self._inner.verdict(candidate, factor, verdict, statement)

    def waits(self, question: str) -> None:
        self._inner.waits(question)

    def close(self) -> None:
        self._inner.close()


class _Recorded(_Forwarding):
    """Writes phases, notes and metrics to the ledger, then shows them."""

    def __init__(self, inner: Display, ledger: Ledger, run: str) -> None:
        super().__init__(inner)
        self._ledger, self._run = ledger, run

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        # Only a phase's beginning is a fact worth a synced write; progress inside it is not.
        if not done:
            self._ledger.event("phase", {"name": name, "detail": detail})
            standing = standing_of(reduce(self._ledger, self._run))
            self.stand(standing)
            detail = f"{detail} ({standing.progress})" if standing.progress else detail
        super().phase(name, detail, done=done, total=total)

    def note(self, text: str) -> None:
        self._ledger.event("note", {"text": text})
        super().note(within_run(text, self._run))

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        self._ledger.event("metrics", {**values, "series": series, "step": step})
        super().metric(series, step, values)

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        super().verdict(within_run(candidate, self._run), factor, verdict, statement)


def recorded(display: Display, ledger: Ledger, run: str) -> Display:
    """Returns a display that also records phases, notes and metrics in the ledger of this run."""
    return _Recorded(display, ledger, run)


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a run, for callbacks: its kind (such as phase or note), its line, its data."""

    kind: str
    text: str = ""
    data: Mapping[str, JSON] = field(default_factory=dict)


class TellingDisplay(_Forwarding):
    """A display that first passes each event to `tell`. An exception of `tell` ends the run."""

    def __init__(self, inner: Display, tell: Callable[[Event], None]) -> None:
        super().__init__(inner)
        self._tell = tell

    def begin(self, headline: Sequence[str]) -> None:
        self._tell(Event("begin", "\n".join(headline)))
        super().begin(headline)

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        self._tell(Event("phase", detail, {"name": name, "done": done, "total": total}))
        super().phase(name, detail, done=done, total=total)

    def note(self, text: str) -> None:
        self._tell(Event("note", text))
        super().note(text)

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        self._tell(Event("metric", series, {"step": step, **values}))
        super().metric(series, step, values)

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        delta = verdict.effect.delta if verdict.effect else None
        kind = {"candidate": candidate, "factor": factor, "kind": str(verdict.kind), "delta": delta}
        self._tell(Event("verdict", statement, kind))
        super().verdict(candidate, factor, verdict, statement)

    def waits(self, question: str) -> None:
        self._tell(Event("waiting", question))
        super().waits(question)


def beside(display: Display | None = None) -> Callable[[str], Display]:
    """Returns a function from a run's name to a display that adds the name to `display`'s lines."""
    shared = display or open_display()
    return lambda name: _Named(shared, name)


class _Named(_Forwarding):
    """A display whose lines say which run they are of. Training curves stay in the ledger."""

    def __init__(self, inner: Display, name: str) -> None:
        super().__init__(inner)
        self._name = name

    def begin(self, headline: Sequence[str]) -> None:
        self._inner.note(f"{self._name}: {headline[0]}")

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        if not done:
            super().phase(name, f"{self._name}: {detail}")

    def note(self, text: str) -> None:
        super().note(f"{self._name}: {text}")

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        """Shows nothing: training metrics are in the ledger."""

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        short = candidate.partition("/")[2] or candidate
        super().verdict(f"{self._name} {short}", factor, verdict, statement)

    def waits(self, question: str) -> None:
        super().waits(f"{self._name}: {question}")

    def close(self) -> None:
        """Does nothing, because other runs share the display."""
