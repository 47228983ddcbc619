"""Progress as a live line at the foot of a terminal; facts scroll by above it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from meta_agent.core.display import Question, Reply
from meta_agent.core.protocols import Verdict
from meta_agent.reports._format import duration, effect_text, one_line
from meta_agent.reports.terminal._lines import headline_numbers
from meta_agent.reports.terminal._prompt import person_at, prompt
from meta_agent.reports.terminal.paint import verdict_style


class LiveDisplay:
    """Redraws one line four times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        # Invariant: guards the fields below; the refresh thread of `Live` reads them.
        self._lock = threading.Lock()
        self._phase = Text("starting")
        self._phase_began = time.monotonic()
        self._began = time.monotonic()
        self._training = ""  # the newest step of a training, and its numbers
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
                self._training = ""
            self._phase = Text.assemble(
                (one_line(name, 20), "bold"), f"  {one_line(detail, 240)}{progress}"
            )

    def note(self, text: str) -> None:
        self._console.print(Text("  " + one_line(text, 400), style="dim"))

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        with self._lock:
            self._training = one_line(f"{series} step {step}  {headline_numbers(values)}", 120)

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
            text = Text.assemble(self._phase, (f"  {self._training}", "cyan"), (clock, "dim"))
        return Spinner("line", text=text)
