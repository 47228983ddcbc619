"""Progress on a terminal: the same lines as in a log, above one line that is redrawn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from meta_agent.core.display import Question, Reply
from meta_agent.reports._format import duration, one_line
from meta_agent.reports.terminal._lines import LineDisplay, headline_numbers


class LiveDisplay(LineDisplay):
    """Shows progress on a terminal: lines, and below them a status that is redrawn."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        # Invariant: guards the fields below; the refresh thread of `Live` reads them.
        self._drawing = threading.Lock()
        self._phase, self._training = "starting", ""
        self._began = self._phase_began = time.monotonic()
        self._live = Live(
            get_renderable=self._panel,
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        progress = f"  {done}/{total}" if done is not None and total is not None else ""
        with self._drawing:
            if not done:
                self._phase_began, self._training = time.monotonic(), ""
            self._phase = f"{one_line(name, 20)}  {one_line(detail, 240)}{progress}"

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        with self._drawing:
            self._training = one_line(f"{series} step {step}  {headline_numbers(values)}", 120)

    def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
        self._live.stop()
        try:
            return super().ask(question, stopping)
        finally:
            self._live.start()

    def close(self) -> None:
        self._live.stop()

    def _write(self, line: str) -> None:
        self._console.print(Text(line))

    def _panel(self) -> RenderableType:
        with self._drawing:
            now = time.monotonic()
            clock = f"  {duration(now - self._phase_began)} of {duration(now - self._began)}"
            text = Text.assemble(self._phase, (f"  {self._training}", "cyan"), (clock, "dim"))
        return Spinner("line", text=text)
