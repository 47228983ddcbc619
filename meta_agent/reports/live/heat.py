"""The map of tasks by versions: which version solved which task.

A column is an evaluation on one split. A row is a task, and the most often solved comes first. A
cell that was not run is empty. The states differ in lightness, so they need no colour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from markupsafe import Markup

from meta_agent.reports._format import one_line
from meta_agent.reports.live.attempts import Attempt, Measurement

STATES: Final = ("clean", "part", "flagged", "failed", "lost")
MOST_TASKS: Final = 1024
_LEFT, _TOP, _COLUMN, _HEIGHT = 8, 120, 26, 620


class Column(NamedTuple):
    """One evaluation: its label, its measurement, and the state of each task."""

    name: str
    measurement: str
    states: Mapping[str, str]


class Heat(NamedTuple):
    """The whole map."""

    columns: Sequence[Column]
    tasks: Sequence[str]
    left_out: int


def heat(measured: Sequence[Measurement], split: str, name: Callable[[Measurement], str]) -> Heat:
    """Returns the map of one split."""
    columns = [
        Column(name(measurement), measurement.short, _states(measurement))
        for measurement in measured
        if measurement.split == split and measurement.rows
    ]
    solved: dict[str, float] = defaultdict(float)
    for column in columns:
        for task, state in column.states.items():
            solved[task] += {"clean": 1.0, "part": 0.5}.get(state, 0.0)
    tasks = sorted(solved, key=lambda task: (-solved[task], task))
    return Heat(columns, tasks[:MOST_TASKS], max(0, len(tasks) - MOST_TASKS))


def drawn(heat: Heat) -> Markup:
    """Returns the map as SVG. Each state is one path, so ten thousand cells are five elements."""
    row = max(1.0, min(14.0, _HEIGHT / max(1, len(heat.tasks))))
    width, height = _LEFT + _COLUMN * len(heat.columns) + 110, _TOP + row * len(heat.tasks) + 8
    paths: dict[str, list[str]] = {state: [] for state in STATES}
    for at, column in enumerate(heat.columns):
        for state, first, last in _stretches(heat.tasks, column.states):
            x, y = _LEFT + _COLUMN * at, _TOP + row * first
            size = row * (last - first)
            paths[state].append(f"M{x} {y:.1f}h{_COLUMN - 2}v{size:.1f}h-{_COLUMN - 2}z")
    parts = [
        Markup('<path class="cell {}" d="{}"/>').format(s, "".join(p)) for s, p in paths.items()
    ]
    parts += [
        Markup('<text transform="translate({} {}) rotate(-40)">{}</text>').format(
            _LEFT + _COLUMN * at + 12, _TOP - 8, one_line(column.name, 22)
        )
        for at, column in enumerate(heat.columns)
    ]
    opening = Markup(
        '<svg class="heat" viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" role="img" '
        'aria-label="{t}" data-left="{l}" data-top="{top}" data-column="{c}" data-row="{r:.4f}">'
        "<title>{t}</title>"
    ).format(
        w=width,
        h=height,
        l=_LEFT,
        top=_TOP,
        c=_COLUMN,
        r=row,
        t="Tasks by versions: who solved what",
    )
    return opening + Markup("").join(parts) + Markup("</svg>")


def _states(measurement: Measurement) -> dict[str, str]:
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for row in measurement.rows:
        attempts[row.task].append(row)
    return {task: _state([row.outcome for row in rows]) for task, rows in attempts.items()}


def _state(outcomes: Sequence[str]) -> str:
    """Returns the state of a task from the outcomes of all attempts at it."""
    if "clean" in outcomes:
        return "clean" if set(outcomes) == {"clean"} else "part"
    return next(state for state in ("flagged", "failed", "lost") if state in outcomes)


def _stretches(tasks: Sequence[str], states: Mapping[str, str]) -> list[tuple[str, int, int]]:
    """Returns runs of tasks with the same state: the state, its first row, and the row after it."""
    row = [states.get(task, "") for task in tasks]
    cuts = [at for at in range(len(row) + 1) if at in (0, len(row)) or row[at] != row[at - 1]]
    return [(row[first], first, last) for first, last in pairwise(cuts) if row[first]]
