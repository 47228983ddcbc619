"""Progress on a terminal: one block that is redrawn, and nothing that scrolls away.

The block says the phase, how much of the run is done, what was found so far, what was spent, and
the last three events. It goes when the run ends, so that the result is the last thing on the
screen. `meta-agent log` prints every event. Where output is no terminal, lines are written instead.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from meta_agent.core.display import Standing
from meta_agent.core.protocols import Verdict
from meta_agent.reports._format import effect_text, number, one_line

EVENTS: Final = 3
_BAR_COLUMNS: Final = 24
_METRICS: Final = ("reward_mean", "clean_success", "dead_group_ratio")


class LiveDisplay:
    """Shows a run as one block of a terminal that is redrawn four times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # Invariant: what is drawn is read and written under the lock, as trainings report from
        # threads.
        self._lock = threading.Lock()
        self._standing = Standing()
        self._phase = self._training = ""
        self._events = deque[str](maxlen=EVENTS)
        self._live = Live(
            get_renderable=self._block, console=console, transient=True, redirect_stdout=False
        )

    def begin(self, headline: Sequence[str]) -> None:
        for line in headline:
            self._console.print(Text(one_line(line, 400)))
        self._live.start()

    def stand(self, standing: Standing) -> None:
        with self._lock:
            self._standing = standing

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        with self._lock:
            shown_detail = detail.removesuffix(f" ({self._standing.progress})")
            count = f" {done} of {total}" if done is not None and total is not None else ""
            self._phase, self._training = f"{name}  {shown_detail}{count}", ""

    def note(self, text: str) -> None:
        self._add(text)

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        numbers = [f"{name} {number(values[name])}" for name in _METRICS if name in values]
        with self._lock:
            self._training = f"{series}: step {step}  {'  '.join(numbers)}"

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        effect = f" {effect_text(verdict.effect)}" if verdict.effect else ""
        why = "; ".join(verdict.reasons) or statement
        self._add(f"{candidate} ({factor}) {verdict.kind}{effect}: {why}")

    def waits(self, question: str) -> None:
        self._add(f"waits for a person: {question}")

    def close(self) -> None:
        self._live.stop()

    def _add(self, text: str) -> None:
        with self._lock:
            self._events.append(f"{time.strftime('%H:%M:%S')} {text}")

    def _block(self) -> RenderableType:
        with self._lock:
            standing, phase, training = self._standing, self._phase, self._training
            events = list(self._events)
        rows: list[RenderableType] = [self._line(phase, "bold")]
        if standing.share is not None:
            rows.append(_bar(standing.share, self._line(standing.progress)))
        facts = (training, standing.so_far, standing.spent)
        rows += [self._line(text) for text in facts if text]
        return Group(*rows, *(self._line(event, "dim") for event in events))

    @staticmethod
    def _line(text: str, style: str = "") -> Text:
        return Text(one_line(text, 400), style=style, no_wrap=True, overflow="ellipsis")


def _bar(share: float, words: Text) -> Table:
    row = Table.grid(padding=(0, 2))
    row.add_column(width=_BAR_COLUMNS)
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_row(ProgressBar(total=1.0, completed=share, width=_BAR_COLUMNS), words)
    return row
