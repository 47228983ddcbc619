"""The figures of a run as data: shares with intervals, and training curves."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from meta_agent.reports._format import bounded, effect_text, share_text
from meta_agent.reports._parts import Measured
from meta_agent.reports.sections import PALETTE_SIZE, Curve, Curves, Interval, Intervals
from meta_agent.reports.state import RunState

# Shown first, in this order; other metrics follow by name.
_METRIC_ORDER: Final = ("success", "clean_success", "reward", "dead_group_ratio", "entropy", "kl")
_MAX_CHARTS: Final = 12
_SEED: Final = re.compile(r"(?:[-/]s| seed )\d+(?=$|[-/,])")


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


def training(state: RunState) -> Curves:
    """Returns charts of up to 12 training metrics, with a line per trained version or candidate."""
    arms = group_by_arm(state.metrics)
    order = {name: place for place, name in enumerate(_METRIC_ORDER)}
    every = chain.from_iterable(state.metrics.values())
    names = {name for point in every for name in point.values}
    charts = []
    for name in sorted(names, key=lambda name: (order.get(name, len(order)), name))[:_MAX_CHARTS]:
        curves = (_curve(state, name, arm, colour) for arm, colour in arms.items())
        charts.append((name, [curve for curve in curves if curve.points]))
    caption = "A line is the mean over training seeds, the band their least and greatest."
    return Curves(list(arms.items()), charts, caption)


def _curve(state: RunState, metric: str, arm: str, colour: int) -> Curve:
    """Returns one version's mean over its training seeds, with their least and greatest."""
    by_step: dict[int, list[float]] = defaultdict(list)
    seeds = [points for series, points in state.metrics.items() if arm_of(series) == arm]
    for point in chain.from_iterable(seeds):
        if metric in point.values:
            by_step[point.step].append(point.values[metric])
    steps = sorted(by_step.items())
    band = [(step, min(values), max(values)) for step, values in steps]
    apart = any(low < high for _, low, high in band)
    line = [(step, sum(values) / len(values)) for step, values in steps]
    return Curve(arm, colour, line, band if apart else ())


def group_by_arm(names: Iterable[str]) -> Mapping[str, int]:
    """Returns a palette index for each arm (version or candidate), whatever its training seed."""
    arms = dict.fromkeys(arm_of(name) for name in names)
    return {arm: place % PALETTE_SIZE for place, arm in enumerate(arms)}


def arm_of(series: str) -> str:
    """Returns the curve's name `series` without its training seed: `g0/c2` for `g0/c2/s1`."""
    return _SEED.sub("", series, count=1)
