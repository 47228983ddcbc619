"""Slice guards: a candidate that is better on average must not be worse on a group of tasks.

A slice is a group of confirm tasks that share a label, such as their repository or difficulty. A
candidate that harms a slice by more than a declared margin is not promoted. The harm has to be
proven at a declared level. Guards only prevent promotions, so they cannot add a false one.

Promises: a candidate that is worse by no more than the margin on every slice is blocked with
probability at most `level`. The level is shared among the slices (Bonferroni). Each slice has the
interval of the whole comparison, training seeds included, or a wider one. With one or two training
seeds that interval is so wide that it hardly ever proves harm or gain.

Does not cover: harm within the margin, harm that a slice is too small to show, and tasks without
labels. The evidence of a verdict shows the effects by slice in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate._records import Arm, Finding
from meta_agent.core.gate.numbers.statistics import Matrix, effect, mean_squares, pair
from meta_agent.core.protocols import Effect

Labels = Mapping[str, Mapping[str, str]]
"""Labels by task key. The labels of one task are such as {"level": "5", "subject": "geometry"}."""


@dataclass(frozen=True, slots=True)
class GuardTerms:
    """The settings of the check whether a candidate harms a group of tasks that share a label.

    Raises ConfigError if a setting is out of range.
    """

    margin: float = 0.05
    """A candidate may lose up to this share of clean success on a group and still be promoted."""
    level: float = 0.05
    """The highest chance of blocking a candidate that harms no group beyond the margin."""
    min_tasks: int = 20
    """Groups of fewer tasks are ignored."""

    def __post_init__(self) -> None:
        if not (0 <= self.margin < 1 and 0 < self.level < 0.5 and self.min_tasks >= 2):
            raise ConfigError(
                f"guards of task groups have margin={self.margin}, level={self.level} and "
                f"min_tasks={self.min_tasks}: set 0 <= margin < 1, 0 < level < 0.5, min_tasks >= "
                "2"
            )


DEFAULT_TERMS: Final = GuardTerms()


class SliceEffect(NamedTuple):
    """A candidate's gain in clean success on the `tasks` tasks that share the label `name`.

    The bounds of `effect` are one-sided, with an error of `GuardTerms.level` / number of groups.
    """

    name: str
    tasks: int
    effect: Effect

    @property
    def line(self) -> str:
        """Returns one line of text: group, gain and its bounds in points, number of tasks."""
        bounds = self.effect
        points = " ".join(f"{100 * x:+.1f}" for x in (bounds.delta, bounds.ci_low, bounds.ci_high))
        delta, low, high = points.split()
        return f"{self.name}: {delta} points [{low}, {high}] on {self.tasks} tasks"


def guard_slices(
    baseline: Arm, candidate: Arm, labels: Labels, terms: GuardTerms = DEFAULT_TERMS
) -> tuple[Finding, ...]:
    """Returns what the gate reports on a candidate's gains and losses by labelled group of tasks.

    The first finding is a table of all groups. A `harm` finding follows for each group in which a
    loss above `terms.margin` is proven. Returns () if no group is large enough.
    """
    effects = slice_effects(baseline, candidate, labels, terms)
    if not effects:
        return ()
    return (
        _table(effects, terms),
        *(_harm(slice_effect, terms) for slice_effect in effects if _harmed(slice_effect, terms)),
    )


def slice_effects(
    baseline: Arm, candidate: Arm, labels: Labels, terms: GuardTerms = DEFAULT_TERMS
) -> tuple[SliceEffect, ...]:
    """Returns the candidate's gain in clean success on each group of tasks that share a label.

    Groups of fewer than `terms.min_tasks` tasks, or of all tasks, are left out.
    """
    slices = dict(_slices(_tasks(baseline) & _tasks(candidate), labels, terms))
    alpha = terms.level / max(1, len(slices))
    return tuple(
        SliceEffect(name, len(tasks), _effect(baseline, candidate, tasks, alpha))
        for name, tasks in sorted(slices.items())
    )


def _tasks(arm: Arm) -> set[str]:
    return {row.task_key for row in arm.rows()}


def _slices(
    tasks: set[str], labels: Labels, terms: GuardTerms
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields name and tasks of each slice, without a slice that would hold every task."""
    members_by_slice: dict[str, set[str]] = {}
    for task in tasks:
        for kind, value in labels.get(task, {}).items():
            members_by_slice.setdefault(f"{kind} {value}", set()).add(task)
    for name, members in members_by_slice.items():
        if terms.min_tasks <= len(members) < len(tasks):
            yield name, frozenset(members)


def _effect(baseline: Arm, candidate: Arm, tasks: frozenset[str], alpha: float) -> Effect:
    pairs = pair(_only(baseline, tasks), _only(candidate, tasks))
    whole = effect(pairs, alpha=alpha, confidence=False)
    half = _luck_of_attempts(pairs.cells, alpha)
    low, high = min(whole.ci_low, whole.delta - half), max(whole.ci_high, whole.delta + half)
    return replace(whole, ci_low=low, ci_high=high)


def _luck_of_attempts(cells: Matrix, alpha: float) -> float:
    """Returns the least half-width of an interval: the part due to the luck of single attempts.

    Four training seeds may agree by chance on a small slice; single attempts do not.
    """
    from scipy.special import ndtri

    if min(cells.shape) < 2:
        return 0.0
    return float(-ndtri(alpha) * math.sqrt(mean_squares(cells).rest / cells.size))


def _only(arm: Arm, tasks: frozenset[str]) -> Arm:
    rows = {
        seed: tuple(row for row in seed_rows if row.task_key in tasks)
        for seed, seed_rows in arm.seeds.items()
    }
    return replace(arm, seeds=rows)


def _harmed(slice_effect: SliceEffect, terms: GuardTerms) -> bool:
    return slice_effect.effect.ci_high < -terms.margin


def _harm(slice_effect: SliceEffect, terms: GuardTerms) -> Finding:
    return Finding(
        "slice.harm",
        "harm",
        f"{slice_effect.line}: worse than the {100 * terms.margin:.0f} points that are accepted",
        numbers={
            "delta": slice_effect.effect.delta,
            "high": slice_effect.effect.ci_high,
            "tasks": slice_effect.tasks,
        },
    )


def _table(effects: tuple[SliceEffect, ...], terms: GuardTerms) -> Finding:
    return Finding(
        "slice.effects",
        "note",
        f"{len(effects)} slices; harm beyond {100 * terms.margin:.0f} points bars a promotion "
        f"where it is proven at level {terms.level:.2g} over all of them",
        lines=tuple(slice_effect.line for slice_effect in effects),
        numbers={slice_effect.name: slice_effect.effect.delta for slice_effect in effects},
    )
