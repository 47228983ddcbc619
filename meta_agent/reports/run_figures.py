"""The figures of a run as data: its way, shares with intervals, curves of training, and costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from meta_agent.reports._course import Point, split_series
from meta_agent.reports._format import bounded, dollars, duration, effect_text, one_line, share_text
from meta_agent.reports._money import usd_of
from meta_agent.reports._parts import Measured, MetricPoint
from meta_agent.reports.sections import (
    PALETTE_SIZE,
    Bars,
    Curve,
    Curves,
    Interval,
    Intervals,
    Mark,
    Table,
    Way,
)
from meta_agent.reports.state import RunState

# Shown first, in this order; other metrics follow by name.
_METRIC_ORDER: Final = ("success", "clean_success", "reward", "dead_group_ratio", "entropy", "kl")
_MAX_CHARTS: Final = 12
_IMITATION: Final = "imitation"
_CONTINUED: Final = "trained on"
_POINT_WORDS: Final[Mapping[str, str]] = {
    "start": "where the run began",
    "imitation": "a pass over the references",
    "leg": "a leg of training",
    "training": "the chosen version, trained on",
    "bundle": "the bundle that the search went on from",
}


# --- the way of a run ---------------------------------------------------------------------------


def way(state: RunState) -> Way:
    """Returns a chart of clean success over attempts; one without rows if it has no two points."""
    marks = [
        Mark(point.at, 100 * point.share, number, point.kind, point.label, point.is_kept)
        for number, point in enumerate(state.course.points, 1)
    ]
    sides = (("start, vault", state.baseline), ("end, vault", state.final))
    caption = (
        "Clean success on search tasks: the line follows what the search went on from, hollow "
        "marks were dropped (they saw fewer tasks). At its end, the start and what is handed over "
        "on vault tasks, with 95 % intervals. The table names the numbers."
    )
    rows = marks if len(marks) > 1 else []
    return Way("Clean success over attempts", rows, list(_measured(sides)), caption)


def way_table(state: RunState) -> Table:
    """Returns the points of `way` as a table; one without rows if it has no two points."""
    points = state.course.points
    rows = [
        (str(number), f"{point.at:,}", f"{100 * point.share:.1f} %", _point_words(state, point))
        for number, point in enumerate(points, 1)
    ]
    headings = ("", "attempts", "clean success", "what was measured")
    return Table(headings, rows if len(rows) > 1 else [], numbers=(0, 1, 2), limit=160)


def _point_words(state: RunState, point: Point) -> str:
    words = _POINT_WORDS.get(point.kind, "")
    for candidate in state.candidates.values():
        if candidate.short_id == point.label:
            words = candidate.change
    end = "" if point.is_kept else " (dropped)"
    return f"{point.label}{end}{': ' * bool(words)}{one_line(words, 120)}"


# --- shares and effects -------------------------------------------------------------------------


def vault(state: RunState) -> Intervals:
    """Returns a chart of clean success on the vault split, before the run and after it."""
    sides = (("vault, before", state.baseline), ("vault, after", state.final))
    caption = (
        "Clean success: solved according to the sealed grader and without flagged conduct. "
        "Bars are 95 % intervals. The vault split is read once, at the end. The weights are the "
        "run's own: the tasks are new, the trainings are not."
    )
    title = "Clean success on the vault split, 95 % interval"
    return Intervals(title, list(_measured(sides)), caption=caption)


def _measured(sides: Iterable[tuple[str, Measured | None]]) -> Iterator[Interval]:
    """Yields a chart row of clean success for each labelled measurement that is not None."""
    for label, side in sides:
        if side and side.clean_success is not None:
            ends = side.ci or (side.clean_success, side.clean_success)
            middle, low, high = (100 * share for share in (side.clean_success, *ends))
            text = share_text(side.clean_success, *ends)
            yield Interval(label, middle, low, high, "version", text)


def effects(state: RunState) -> Intervals:
    """Returns a chart of each candidate's gain in clean success.

    For candidates trained together, it shows how much of their gain each contributed.
    """
    title = "Effect on clean success in points"
    caption = (
        "Effect on clean success in points. A member of a bundle shows its share, which explains "
        "the bundle and proves nothing."
    )
    return Intervals(title, list(_effect_rows(state)), unit="", zero=True, caption=caption)


def _effect_rows(state: RunState) -> Iterator[Interval]:
    for candidate in state.candidates.values():
        if effect := candidate.estimate:
            ends = (effect.ci_low, effect.ci_high) if bounded(effect) else (effect.delta,) * 2
            middle, low, high = (100 * share for share in (effect.delta, *ends))
            text = effect_text(effect)
            yield Interval(candidate.short_id, middle, low, high, candidate.kind, text)


# --- money and time -----------------------------------------------------------------------------


def money(state: RunState) -> Bars:
    """Returns a bar for each role that asked models: its US$, or tokens if a price is unknown."""
    amounts = {role: usd_of(part) for role, part in state.spend.items()}
    if None in amounts.values():
        rows = [
            (role, float(tokens), f"{tokens:,} tokens")
            for role, part in state.spend.items()
            if (tokens := part.tokens + part.open_tokens)
        ]
        return Bars("Tokens by role", rows)
    paid = [(role, usd, dollars(usd)) for role, usd in amounts.items() if usd]
    return Bars("Money by role", paid)


def hours(state: RunState) -> Bars:
    """Returns a bar for each activity of a run: its seconds, of jobs at the same time the sum."""
    rows = [
        (activity, sec, duration(sec)) for activity, sec in state.course.seconds.items() if sec >= 1
    ]
    return Bars("Time by activity", rows, "Jobs that ran at the same time add up.")


# --- training -----------------------------------------------------------------------------------


def training(state: RunState) -> Curves:
    """Returns charts of up to 12 training metrics, with a line per version or longer training.

    Metrics that never change are named in the caption and have no chart. The first ten lines have
    a colour each, further ones share a grey.
    """
    curves = _by_curve(state)
    colours = {name: min(place, PALETTE_SIZE) for place, name in enumerate(curves)}
    order = {name: place for place, name in enumerate(_METRIC_ORDER)}
    every = list(chain.from_iterable(state.metrics.values()))
    names = sorted(
        {name for point in every for name in point.values},
        key=lambda name: (order.get(name, len(order)), name),
    )
    flat = [name for name in names if len({p.values[name] for p in every if name in p.values}) < 2]
    moving = [name for name in names if name not in flat] if len(every) > 1 else names
    charts = []
    for metric in moving[:_MAX_CHARTS]:
        lines = (_curve(metric, name, series, colours[name]) for name, series in curves.items())
        charts.append((metric, [curve for curve in lines if curve.points]))
    return Curves(_legend(colours), charts, _caption(flat if moving != names else []))


def _caption(flat: Sequence[str]) -> str:
    words = "A line is the mean over training seeds, the band their least and greatest."
    return f"{words} Metrics that never change: {', '.join(flat)}." if flat else words


def _legend(colours: Mapping[str, int]) -> list[tuple[str, int]]:
    coloured = [(name, colour) for name, colour in colours.items() if colour < PALETTE_SIZE]
    others = len(colours) - len(coloured)
    return coloured + [(f"{others} more", PALETTE_SIZE)] * bool(others)


Series = Sequence[tuple[int, MetricPoint]]


def _by_curve(state: RunState) -> Mapping[str, list[Series]]:
    """Returns the series of each curve: one for each training seed, or the parts of a training.

    A part of a longer training, such as a leg, goes on where the part before it ended.
    """
    seeds: dict[str, list[Series]] = defaultdict(list)
    parts: dict[str, list[tuple[int, MetricPoint]]] = defaultdict(list)
    for series, points in state.metrics.items():
        arm, seed, steps = split_series(series)
        stage = state.course.stages.get((seed, steps)) if seed is not None and steps else None
        if stage is None:
            seeds[arm].append([(point.step, point) for point in points])
        else:
            name = _IMITATION if stage.imitates else _CONTINUED
            parts[name] += [(stage.before + point.step, point) for point in points]
    return {**seeds, **{name: [sorted(part, key=_step)] for name, part in parts.items()}}


def _step(place: tuple[int, MetricPoint]) -> int:
    return place[0]


def _curve(metric: str, name: str, every: Sequence[Series], colour: int) -> Curve:
    """Returns the mean over training seeds of one curve, with their least and greatest."""
    by_step: dict[int, list[float]] = defaultdict(list)
    for step, point in chain.from_iterable(every):
        if metric in point.values:
            by_step[step].append(point.values[metric])
    steps = sorted(by_step.items())
    band = [(step, min(values), max(values)) for step, values in steps]
    apart = any(low < high for _, low, high in band)
    line = [(step, sum(values) / len(values)) for step, values in steps]
    return Curve(name, colour, line, band if apart else ())
