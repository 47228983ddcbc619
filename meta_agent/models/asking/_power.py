"""The smallest gain that a plan can prove: the judge's interval turned round.

Frozen policy: the task is the unit. The difference on a task has variance D - delta^2 for single
attempts, D being the share of tasks where two attempts differ (at least delta). Half of it is taken
for luck, which samples average out. Trained policy: training seeds are a second part with its own
degrees of freedom, as in `gate.statistics`. The exact sign-flip test needs so many differing tasks
that 2^-n reaches alpha, whatever the interval says.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

POWER: Final = 0.8
DISCORDANCE: Final = 0.2
"""Assumed share of tasks whose result differs between two single attempts."""
LUCK: Final = 0.5
"""Assumed share of that which is chance, not the task."""
SEED_SD: Final = 0.02
"""Assumed spread between training seeds of a difference in clean success."""
_MAX_TASKS: Final = 1 << 16


class Design(NamedTuple):
    """What stands behind the last look at what is claimed."""

    tasks: int
    repeats: int  # samples a task, or training seeds
    alpha: float  # one-sided, of this look
    frozen: bool
    min_effect: float = 0.0


def smallest_effect(design: Design) -> float | None:
    """The least true gain (a share) that is found four times in five; None: nothing can be."""
    differing = math.ceil(math.log2(1 / design.alpha)) if design.frozen else 2
    if design.tasks < max(2, differing) or design.repeats < (1 if design.frozen else 2):
        return None
    low, high = 0.0, 1.0
    if _needed(design, high) > high:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if _needed(design, middle) <= middle else (middle, high)
    exact = differing / (design.tasks * design.repeats) if design.frozen else 0.0
    return max(high, exact) if max(high, exact) <= 1 else None


def tasks_needed(design: Design, effect: float) -> int | None:
    """How many tasks would do for a gain of that size."""
    tasks = design.tasks
    while tasks <= _MAX_TASKS:
        found = smallest_effect(design._replace(tasks=tasks))
        if found is not None and found <= effect:
            return tasks
        tasks = max(tasks + 1, math.ceil(tasks * 1.1))
    return None


def assumptions(design: Design) -> str:
    """What the figure rests on, in a sentence."""
    seeds = f", training seeds spread by {100 * SEED_SD:.0f} points" if not design.frozen else ""
    unit = "samples a task" if design.frozen else "training seeds"
    return (
        f"assumed: two attempts differ on {DISCORDANCE:.0%} of tasks, {LUCK:.0%} of that by luck"
        f"{seeds}; found with {POWER:.0%} probability at alpha {design.alpha:.4f} on "
        f"{design.tasks} confirm tasks with {design.repeats} {unit}"
    )


def _needed(design: Design, delta: float) -> float:
    """What the estimate has to exceed, on average, if the true gain is `delta`."""
    spread = max(DISCORDANCE, delta) - delta**2
    noise = LUCK / design.repeats
    parts = [(spread * (1 - LUCK + noise) / design.tasks, design.tasks - 1)]
    if not design.frozen:
        parts.append((SEED_SD**2 / design.repeats, design.repeats - 1))
    half = math.sqrt(sum(part * _t(df, 1 - design.alpha) ** 2 for part, df in parts))
    return design.min_effect + half + _t(10_000, POWER) * math.sqrt(sum(v for v, _ in parts))


def _t(df: int, probability: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))
