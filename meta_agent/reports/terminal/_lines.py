"""Progress as timestamped lines, on a terminal and in a log alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

from meta_agent.core.display import Standing
from meta_agent.core.protocols import Verdict
from meta_agent.reports._format import effect_text, number, one_line

# A curve is in the ledger; a log needs only a sign of life.
METRIC_INTERVAL_SEC: Final = 10.0
_METRICS: Final = ("reward_mean", "clean_success", "success", "dead_group_ratio", "entropy")


class LineDisplay:
    """Shows progress as timestamped lines: phases, notes, verdicts, metrics every 10 seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Invariant: one whole line is written at a time; training jobs report from threads.
        self._lock = threading.Lock()
        self._last_metric: dict[str, float] = {}

    def begin(self, headline: Sequence[str]) -> None:
        for line in headline:
            self._line("run", line)

    def stand(self, standing: Standing) -> None:
        """Does nothing, because the line of a phase says it."""

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        progress = f" {done}/{total}" if done is not None and total is not None else ""
        self._line(name, f"{detail}{progress}".strip())

    def note(self, text: str) -> None:
        self._line("note", text)

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        if self._is_due(series):
            numbers = [f"{name} {number(values[name])}" for name in _METRICS if name in values]
            self._line("train", f"{series}: step {step}  {'  '.join(numbers)}")

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        why = "; ".join(verdict.reasons)
        effect = f" {effect_text(verdict.effect)}" if verdict.effect else ""
        self._line("verdict", f"{candidate} ({factor}) {verdict.kind}{effect}: {why or statement}")

    def waits(self, question: str) -> None:
        self._line("waits", question)

    def close(self) -> None:
        """Does nothing, because this display holds nothing open."""

    def _is_due(self, series: str) -> bool:
        now = time.monotonic()
        with self._lock:
            if now - self._last_metric.get(series, -METRIC_INTERVAL_SEC) < METRIC_INTERVAL_SEC:
                return False
            self._last_metric[series] = now
            return True

    def _line(self, label: str, text: str) -> None:
        stamp = time.strftime("%H:%M:%S")
        with self._lock:
            self._stream.write(f"{stamp} {one_line(label, 12):<9} {one_line(text, 400)}\n")
            self._stream.flush()
