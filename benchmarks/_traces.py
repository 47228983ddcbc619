"""Which line of the evidence gives a planted fault away, one per fault of the nano suite.

A trace names the file that an agent would open and says what a telling line looks like: a number
beyond what a sound harness shows, or a name that only the fault brings. It is searched in the files
as they lie before an agent; whether it also stands there without the fault is asked of the control.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Line = Callable[[str], bool]


@dataclass(frozen=True)
class Trace:
    """`what` in words; the first line of `path` for which `tells` holds, unless `unless` stands."""

    what: str
    path: str
    tells: Line
    unless: str = ""

    def found(self, files: Mapping[str, bytes]) -> tuple[str, str] | None:
        """The place (`path:line`) and the line."""
        text = files.get(self.path, b"").decode()
        if self.unless and self.unless in text:
            return None
        for number, line in enumerate(text.splitlines(), start=1):
            if self.tells(line):
                return f"{self.path}:{number}", line
        return None


def _holds(pattern: str) -> Line:
    compiled = re.compile(pattern)
    return lambda line: compiled.search(line) is not None


def _beyond(metric: str, bound: float, *, below: bool = False) -> Line:
    """A row of metrics.csv whose value lies beyond a bound."""

    def tells(line: str) -> bool:
        name, value = [*line.split(","), ""][:2]
        if name != metric or not value:
            return False
        return float(value) < bound if below else float(value) > bound

    return tells


_METRICS, _TRAINING = "metrics.csv", "training.csv"

TRACES: Mapping[str, Trace] = {
    "leak_offered": Trace("attempts flagged for the leak", "rollouts/index.csv", _holds("leak:")),
    "few_turns": Trace(
        "attempts cut off after five turns", "rollouts/index.csv", _holds(r",returned,5,")
    ),
    "short_observations": Trace(
        "tool output is cut", _METRICS, _beyond("measured.endings.cut_observation_share", 0.2)
    ),
    "turn_penalty": Trace(
        "a component pays short attempts", _METRICS, _holds(r"^signal\.component\.efficiency\.")
    ),
    "test_bonus": Trace(
        "a component pays tests", _METRICS, _holds(r"^signal\.component\.diligence\.")
    ),
    "dead_reward": Trace(
        "`solved` never pays",
        _METRICS,
        _beyond("signal.component.solved.mean", 1e-9, below=True),
    ),
    "inverted_filter": Trace(
        "most groups are dropped", _METRICS, _beyond("signal.train.dropped_group_ratio.last", 0.6)
    ),
    "winners_only": Trace(
        "most groups are dropped", _METRICS, _beyond("signal.train.dropped_group_ratio.last", 0.6)
    ),
    "easy_first": Trace(
        "training solves far more than the search split",
        _METRICS,
        _beyond("signal.train_success", 0.65),
    ),
    "same_few_tasks": Trace("tasks come again", _METRICS, _beyond("signal.task_repeats", 0.0)),
    "tiny_learning_rate": Trace("the learning rate", _TRAINING, _holds(r"(^|,)1e-06(,|$)")),
    "cold_sampling": Trace("most groups agree", _METRICS, _beyond("signal.dead_group_ratio", 0.3)),
    "anchored": Trace("a divergence that is paid for", _TRAINING, _holds(r"(^|,)kl(,|$)")),
    "blind_to_leaks": Trace(
        "the tool report has no leaks",
        _METRICS,
        _holds(r"^measured\.tool_mix\."),
        unless="measured.tool_mix.leak_use",
    ),
}
