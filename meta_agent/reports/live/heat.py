"""The map of tasks by versions: who solved what, who was never asked, which tasks tell them apart.

A column is an evaluation on one split, a row a task, the most often solved first. Not run is empty,
which no colour is. Each state differs in lightness, so that it is told apart without colour.
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
    """One evaluation: what people call it, where it is found, and its tasks' states."""

    name: str
    measurement: str
    states: Mapping[str, str]


class Heat(NamedTuple):
    """The whole map."""

    columns: Sequence[Column]
    tasks: Sequence[str]
    left_out: int


def heat(measured: Sequence[Measurement], split: str, name: Callable[[Measurement], str]) -> Heat:
    """The map of one split."""
    columns = [
        Column(name(one), one.short, _states(one))
        for one in measured
        if one.split == split and one.rows
    ]
    solved: dict[str, float] = defaultdict(float)
    for column in columns:
        for task, state in column.states.items():
            solved[task] += {"clean": 1.0, "part": 0.5}.get(state, 0.0)
    tasks = sorted(solved, key=lambda task: (-solved[task], task))
    return Heat(columns, tasks[:MOST_TASKS], max(0, len(tasks) - MOST_TASKS))


def drawn(told: Heat) -> Markup:
    """The map as SVG: one path for each state, so that ten thousand cells are five elements."""
    row = max(1.0, min(14.0, _HEIGHT / max(1, len(told.tasks))))
    width, height = _LEFT + _COLUMN * len(told.columns) + 110, _TOP + row * len(told.tasks) + 8
    paths: dict[str, list[str]] = {state: [] for state in STATES}
    for at, column in enumerate(told.columns):
        for state, first, last in _stretches(told.tasks, column.states):
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
        for at, column in enumerate(told.columns)
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


def _states(one: Measurement) -> dict[str, str]:
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for row in one.rows:
        attempts[row.task].append(row)
    return {task: _state([row.outcome for row in rows]) for task, rows in attempts.items()}


def _state(outcomes: Sequence[str]) -> str:
    """Of all attempts at a task: all clean, some, none but flagged ones, none, none known."""
    if "clean" in outcomes:
        return "clean" if set(outcomes) == {"clean"} else "part"
    return next(state for state in ("flagged", "failed", "lost") if state in outcomes)


def _stretches(tasks: Sequence[str], states: Mapping[str, str]) -> list[tuple[str, int, int]]:
    """Neighbours of one state as one piece: the state, its first row, and the row behind it."""
    told = [states.get(task, "") for task in tasks]
    cuts = [at for at in range(len(told) + 1) if at in (0, len(told)) or told[at] != told[at - 1]]
    return [(told[first], first, last) for first, last in pairwise(cuts) if told[first]]
