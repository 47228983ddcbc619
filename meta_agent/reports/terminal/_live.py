"""Progress as a live panel at the foot of a terminal; facts scroll by above it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from meta_agent.core.display import Question, Reply
from meta_agent.core.protocols import Verdict
from meta_agent.reports._format import duration, effect_text, number, one_line
from meta_agent.reports._parts import MetricPoint
from meta_agent.reports.terminal._prompt import person_at, prompt
from meta_agent.reports.terminal.paint import verdict_style

_BARS: Final = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH: Final = 30
_MAX_ARMS: Final = 6
# The first of these that an arm reports is drawn.
_HEADLINE_METRICS: Final = ("success", "clean_success", "reward", "loss")


class LiveDisplay:
    """Redraws a few lines four times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        # Invariant: guards the fields below; the refresh thread of `Live` reads them.
        self._lock = threading.Lock()
        self._phase = Text("starting")
        self._phase_began = time.monotonic()
        self._began = time.monotonic()
        self._arms: dict[str, list[MetricPoint]] = {}
        self._live = Live(
            get_renderable=self._panel,
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def begin(self, headline: Sequence[str]) -> None:
        for line in headline:
            self._console.print(Text(one_line(line, 400)))

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        progress = f"  {done}/{total}" if done is not None and total is not None else ""
        with self._lock:
            if not done:
                self._phase_began = time.monotonic()
                self._arms.clear()
            self._phase = Text.assemble(
                (one_line(name, 20), "bold"), f"  {one_line(detail, 240)}{progress}"
            )

    def note(self, text: str) -> None:
        self._console.print(Text("  " + one_line(text, 400), style="dim"))

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        point = MetricPoint(series, step, values)
        with self._lock:
            self._arms.setdefault(point.series, []).append(point)

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        line = Text.assemble(
            (f"{verdict.kind:<13}", verdict_style(verdict.kind)),
            f"{one_line(candidate)} ({one_line(factor)})  {effect_text(verdict.effect)}  ",
            (one_line("; ".join(verdict.reasons) or statement, 300), "dim"),
        )
        self._console.print(line)

    def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
        if not person_at(self._console.file):
            return None
        self._live.stop()
        try:
            return prompt(question, self._console.file, stopping)
        finally:
            self._live.start()

    def close(self) -> None:
        self._live.stop()

    def _panel(self) -> RenderableType:
        with self._lock:
            now = time.monotonic()
            clock = f"  {duration(now - self._phase_began)} of {duration(now - self._began)}"
            line = Text.assemble(self._phase, (clock, "dim"))
            arms = [
                _arm_row(name, points) for name, points in list(self._arms.items())[-_MAX_ARMS:]
            ]
        table = Table.grid(padding=(0, 2))
        for row in arms:
            table.add_row(*row)
        return Group(Spinner("line", text=line), table)


def _arm_row(name: str, points: list[MetricPoint]) -> tuple[Text, Text, Text]:
    metric = next((choice for choice in _HEADLINE_METRICS if choice in points[-1].values), None)
    values = [p.values[metric] for p in points if metric in p.values] if metric else []
    latest = f"{metric} {number(values[-1])}" if values else ""
    return (
        Text(f"  {one_line(name, 30)} step {points[-1].step}"),
        Text(sparkline(values), style="cyan"),
        Text(latest),
    )


def sparkline(values: Sequence[float]) -> str:
    """Returns the last values as bars, scaled between the least and the greatest of them."""
    recent = values[-_SPARK_WIDTH:]
    if not recent:
        return ""
    low, high = min(recent), max(recent)
    if high == low:
        return _BARS[3] * len(recent)
    return "".join(_BARS[round((value - low) / (high - low) * 7)] for value in recent)
