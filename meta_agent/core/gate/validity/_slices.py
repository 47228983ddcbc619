"""Slice guards: a candidate that is better on average must not be worse on a group of tasks.

A slice is a group of confirm tasks that share a label, such as their repository or difficulty. A
candidate that harms a slice by more than `MARGIN` is not promoted. The harm has to be proven at
`LEVEL`. Guards only prevent promotions, so they cannot add a false one.

Promises: a candidate that is worse by no more than the margin on every slice is blocked with
probability at most `LEVEL`. The level is shared among the slices (Bonferroni). Each slice has the
interval of the whole comparison, training seeds included, or a wider one. With one or two training
seeds that interval is so wide that it hardly ever proves harm or gain.

Does not cover: harm within the margin, harm that a slice is too small to show, and tasks without
labels. The evidence of a verdict shows the effects by slice in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from meta_agent.core.gate._records import Arm, Finding
from meta_agent.core.gate.numbers.statistics import effect, mean_squares, pair
from meta_agent.core.gate.validity._shares import Context, Labels, Side
from meta_agent.core.protocols import Effect

MARGIN: Final = 0.05
"""A candidate may lose up to this share of clean success on a group and still be promoted."""
LEVEL: Final = 0.05
"""The highest chance of blocking a candidate that harms no group beyond the margin."""
MIN_TASKS: Final = 20
"""Groups of fewer tasks are ignored."""


class SliceEffect(NamedTuple):
    """A candidate's gain in clean success on the `tasks` tasks that share the label `name`.

    The bounds of `effect` are one-sided, with an error of `LEVEL` / number of groups.
    """

    name: str
    tasks: int
    effect: Effect

    @property
    def line(self) -> str:
        """Returns one line of text: group, gain and its bounds in points, number of tasks."""
        low, high = 100 * self.effect.ci_low, 100 * self.effect.ci_high
        gain = f"{100 * self.effect.delta:+.1f} points [{low:+.1f}, {high:+.1f}]"
        return f"{self.name}: {gain} on {self.tasks} tasks"


def harm(before: Side | None, after: Side, context: Context) -> Iterator[Finding]:
    """Yields what the gate reports on a candidate's gains and losses by labelled group of tasks.

    A `harm` finding is made for each group in which a loss above `MARGIN` is proven, and one note
    with a table of all groups. Nothing is said if no group is large enough.
    """
    effects = slice_effects(before.arm, after.arm, context.labels) if before else ()
    if effects:
        yield Finding(
            "slice.effects",
            "note",
            f"{len(effects)} slices; harm beyond {100 * MARGIN:.0f} points bars a promotion where "
            f"it is proven at level {LEVEL:.2g} over all of them",
            tuple(each.line for each in effects),
            {each.name: each.effect.delta for each in effects},
        )
    for each in effects:
        if each.effect.ci_high < -MARGIN:
            yield Finding(
                "slice.harm",
                "harm",
                f"{each.line}: worse than the {100 * MARGIN:.0f} points that are accepted",
                numbers={
                    "delta": each.effect.delta,
                    "high": each.effect.ci_high,
                    "tasks": each.tasks,
                },
            )


def slice_effects(baseline: Arm, candidate: Arm, labels: Labels) -> tuple[SliceEffect, ...]:
    """Returns the candidate's gain in clean success on each group of tasks that share a label.

    Groups of fewer than `MIN_TASKS` tasks, or of all tasks, are left out.
    """
    tasks = {row.task_key for row in baseline.rows()} & {row.task_key for row in candidate.rows()}
    members: dict[str, set[str]] = {}
    for task in tasks:
        for kind, value in labels.get(task, {}).items():
            members.setdefault(f"{kind} {value}", set()).add(task)
    slices = {n: group for n, group in members.items() if MIN_TASKS <= len(group) < len(tasks)}
    return tuple(
        SliceEffect(name, len(group), _effect(baseline, candidate, group, LEVEL / len(slices)))
        for name, group in sorted(slices.items())
    )


def _effect(baseline: Arm, candidate: Arm, tasks: set[str], alpha: float) -> Effect:
    """Returns the gain on some tasks. Its interval covers the luck of single attempts at least.

    Four training seeds may agree by chance on a small slice; single attempts do not.
    """
    from scipy.special import ndtri

    pairs = pair(_only(baseline, tasks), _only(candidate, tasks))
    whole, half = effect(pairs, alpha=alpha, confidence=False), 0.0
    if min(pairs.cells.shape) > 1:
        half = float(-ndtri(alpha) * math.sqrt(mean_squares(pairs.cells).rest / pairs.cells.size))
    low, high = min(whole.ci_low, whole.delta - half), max(whole.ci_high, whole.delta + half)
    return replace(whole, ci_low=low, ci_high=high)


def _only(arm: Arm, tasks: set[str]) -> Arm:
    rows = {
        seed: tuple(row for row in seed_rows if row.task_key in tasks)
        for seed, seed_rows in arm.seeds.items()
    }
    return replace(arm, seeds=rows)
