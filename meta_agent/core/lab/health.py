"""The health rule: decides from step metrics alone whether a training goes on.

The limits come from the first steps of the run's first training, that of the version that it
started from (the base). No limit is absolute. A training is unhealthy if, in several steps in a
row, its clean success is no higher than the base's median and the same sign shows in each:

    entropy is gone      it is below a quarter of the lowest of the base
    ratios explode       clipped ratios, their mismatch or the gradient are above four times the
                         highest of the base, or a gradient or loss is no finite number
    lengths run away     replies are over four times as long as the longest of the base
    all groups are dead  no group of the step has different rewards, and groups of the base had

or if, since its first steps, its reward rose and its clean success fell, each by more than the
range over the base's first steps (rewards are measured in their standard deviations).

Promises: the same metrics give the same decision, so a resumed training ends like an undisturbed
one. A metric that the base lacks, or that is 0 in the base, has no limit and no sign.
Not covered: trainings that go on from trained weights, whose first steps differ from the base's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON

FIRST_STEPS: Final = 5
"""The limits come from so many of the first steps of the base."""
FACTOR: Final = 4.0
"""A metric is far from the base beyond its range by this factor."""
_CLEAN: Final = "clean_success"
_ROUNDING: Final = 1e-9
_ABOVE: Final = {
    "clip_share": "ratios explode",
    "mismatch_max": "ratios explode",
    "grad_norm": "ratios explode",
    "completion_tokens_mean": "lengths run away",
}
_FINITE: Final = ("grad_norm", "loss")
_NAMES: Final = (*_ABOVE, "loss", "entropy", "dead_group_ratio", "reward_mean", "reward_std")

Row = Mapping[str, JSON]


class Ended(NamedTuple):
    """Why and when a training was ended early."""

    after: int
    """The optimiser steps that were made."""
    steps: int
    """The optimiser steps of the weights that it ends with, the last healthy ones."""
    reason: str


def base_rows(metrics: Sequence[Row]) -> list[dict[str, JSON]]:
    """Returns the first steps of the base's training, with only the metrics that `ended` reads."""
    names = (_CLEAN, *_NAMES)
    return [{name: row[name] for name in names if name in row} for row in metrics[:FIRST_STEPS]]


def ended(metrics: Sequence[Row], base: Sequence[Row], in_a_row: int) -> Ended | None:
    """Returns why and when an unhealthy training ends, or None if the training goes on.

    `metrics` has a row per step, `base` comes from `base_rows`. A training ends after `in_a_row`
    steps in a row that are far worse than the base's, and never if that number is 0.
    """
    if not base or not in_a_row or len(metrics) < in_a_row:
        return None
    last = metrics[-in_a_row:]
    if _values(base, _CLEAN) and not _values(last, _CLEAN):
        return None  # all their attempts had a hint, so nothing says what the policy can do
    if _mean(last, _CLEAN) > median(_values(base, _CLEAN) or [0.0]) + _ROUNDING:
        return None
    sign = _sign(last, base)
    reason = f"{in_a_row} steps in a row: {sign}" if sign else _hacked(metrics, base, in_a_row)
    after = len(metrics)
    return Ended(after, max(0, after - in_a_row - 1), reason) if reason else None


def _sign(last: Sequence[Row], base: Sequence[Row]) -> str | None:
    """Returns the first sign that all of the `last` steps show."""
    for name in _FINITE:
        if all(name in row for row in base) and not any(name in row for row in last):
            return f"ratios explode: {name} is not a finite number"
    entropy = min(_values(base, "entropy"), default=0.0) / FACTOR
    values = _values(last, "entropy")
    if len(values) == len(last) and max(values) < entropy:
        return f"entropy is gone: {values[-1]:.3g}, and the base's limit is {entropy:.3g}"
    for name, words in _ABOVE.items():
        limit = FACTOR * max(_values(base, name), default=0.0)
        values = _values(last, name)
        if limit and len(values) == len(last) and min(values) > limit:
            return f"{words}: {name} is {values[-1]:.3g}, and the base's limit is {limit:.3g}"
    dead = _values(last, "dead_group_ratio")
    if min(_values(base, "dead_group_ratio"), default=1.0) < 1 and min(dead, default=0.0) >= 1:
        return "all groups are dead: no group has different rewards"
    return None


def _hacked(metrics: Sequence[Row], base: Sequence[Row], in_a_row: int) -> str | None:
    """Returns a reason if the reward rose since the first steps while clean success fell."""
    first, last = metrics[:in_a_row], metrics[-in_a_row:]
    unit, base_unit = _mean(first, "reward_std"), _mean(base, "reward_std")
    if len(metrics) < 2 * in_a_row or not unit or not base_unit:
        return None
    rise = (_mean(last, "reward_mean") - _mean(first, "reward_mean")) / unit
    fall = _mean(first, _CLEAN) - _mean(last, _CLEAN)
    usual_rise, usual_fall = _range(base, "reward_mean") / base_unit, _range(base, _CLEAN)
    if not 0 < usual_rise < rise or not 0 < usual_fall < fall:
        return None
    return f"the reward rose by {rise:.2g} deviations while clean success fell by {fall:.1%}"


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if name in row]


def _mean(rows: Sequence[Row], name: str) -> float:
    return fmean(_values(rows, name) or [0.0])


def _range(rows: Sequence[Row], name: str) -> float:
    values = _values(rows, name) or [0.0]
    return max(values) - min(values)
