"""A display that also tells others: callbacks of `optimize`, trackers, whoever is to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_agent.core.display import Question, Reply
from meta_agent.core.protocols import JSON, Verdict
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal.display import Display


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the display would show: `kind` is the verb, `text` the line."""

    kind: str
    text: str = ""
    data: Mapping[str, JSON] = field(default_factory=dict)


class Told:
    """Tells `tell` first, then shows. What `tell` raises ends the run."""

    def __init__(self, inner: Display, tell: Callable[[Event], None]) -> None:
        self._inner, self._tell = inner, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def begin(self, headline: Sequence[str]) -> None:
        self._tell(Event("begin", "\n".join(headline)))
        self._inner.begin(headline)

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        self._tell(Event("phase", detail, {"name": name, "done": done, "total": total}))
        self._inner.phase(name, detail, done=done, total=total)

    def note(self, text: str) -> None:
        self._tell(Event("note", text))
        self._inner.note(text)

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        self._tell(Event("metric", series, {"step": step, **values}))
        self._inner.metric(series, step, values)

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        delta = verdict.effect.delta if verdict.effect else None
        told = {"candidate": candidate, "factor": factor, "kind": str(verdict.kind), "delta": delta}
        self._tell(Event("verdict", statement, told))
        self._inner.verdict(candidate, factor, verdict, statement)

    def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
        self._tell(Event("waiting", question.decision.asks))
        return self._inner.ask(question, stopping)

    def done(self, state: RunState) -> None:
        self._tell(Event("done", str(state.exit_reason)))
        self._inner.done(state)
