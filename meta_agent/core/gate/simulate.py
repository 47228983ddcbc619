"""What the gate does to arms that differ by luck, or by a gain of known size: simulated.

Pairs of arms are drawn from a `Population` (here a model: a rate for each task, and on the logit
scale a normal effect of the training seed) and put before the very rule that decides in the loop
(`Gate.judge` asks `judge.kind_of_pairs`, one analysis after the other).

Promises: a gain of size `delta` turns failures into successes at random until the mean has risen by
that much; equal seeds give equal figures, and power rises with the gain on the same draws.

Does not cover: validity (simulated rollouts have no conduct), and the dependence of candidates on a
shared baseline (each pair is drawn anew, which can only raise the rate of runs with an error).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.judge import MIN_TRAINING_SEEDS, Terms, kind_of_pairs
from meta_agent.core.gate.numbers._course import COLLAPSE, Course
from meta_agent.core.gate.numbers._intervals import wilson
from meta_agent.core.gate.numbers.sequential import reach
from meta_agent.core.gate.numbers.statistics import Pairs
from meta_agent.core.protocols import VerdictKind

Matrix = NDArray[np.float64]
Random = np.random.Generator

POWER: Final = 0.8
_NORMAL_AT_POWER: Final = 0.8416


# --- the rule in force ---------------------------------------------------------------------------


class Analysis(NamedTuple):
    """An analysis, planned beforehand, and how much data there is by then.

    `repeats` counts training seeds, or attempts per task. After a `final` one no data is added.
    """

    repeats: int
    tasks: int
    final: bool = True
    course: Course | None = None
    extra: int = 0
    """The number of tasks that have one more attempt. It is 0 if a policy is trained."""


class SimulatedVerdict(NamedTuple):
    """The verdict on a simulated candidate, and the seeds (or attempts a task) and tasks used."""

    kind: VerdictKind
    repeats: int
    tasks: int

    @property
    def promoted(self) -> bool:
        return self.kind is VerdictKind.PROMOTE


@dataclass(frozen=True, slots=True)
class Gate:
    """The rule by which candidates are promoted, apart from validity checks.

    `analyses` are the planned ones, in order. Raises ConfigError if there are none.
    """

    analyses: tuple[Analysis, ...]
    terms: Terms
    _min_seeds: ClassVar[int] = MIN_TRAINING_SEEDS

    def __post_init__(self) -> None:
        if not self.analyses:
            raise ConfigError("the test has no analyses; pass one or more")

    @property
    def repeats(self) -> int:
        """Returns the most training seeds, or attempts per task, that one candidate may get."""
        return max(analysis.repeats + bool(analysis.extra) for analysis in self.analyses)

    @property
    def tasks(self) -> int:
        return max(analysis.tasks for analysis in self.analyses)

    def judge(self, differences: Matrix, level: float = 1.0) -> SimulatedVerdict:
        """Returns the verdict on a [repeat, task] matrix of differences, one analysis at a time.

        `level` is the clean success of the baseline, as a share of 1.
        """
        for analysis in self.analyses:
            repeats = analysis.repeats + bool(analysis.extra)
            pairs = self._pairs(analysis, differences[:repeats, : analysis.tasks])
            terms = replace(
                self.terms, min_seeds=self._min_seeds, final=analysis.final, course=analysis.course
            )
            kind, goes_on = kind_of_pairs(pairs._replace(level=level), terms)
            if not goes_on:
                break
        return SimulatedVerdict(kind, analysis.repeats, analysis.tasks)

    def _pairs(self, analysis: Analysis, cells: Matrix) -> Pairs:
        return Pairs(cells, cells.size, 0, 1)

    def least(self, source: Modelled) -> float | None:
        """Returns the least gain that is promoted with probability 80 %, or None if no gain is.

        The gain is computed from `source`, without simulation, as if the test used all its pairs.
        """
        last, mean = self.analyses[-1], float(source.rates.mean())
        luck = float(np.mean(source.rates * (1 - source.rates))) / last.tasks
        deviation = math.sqrt(2 * (source.seed_sd**2 + luck) / last.repeats)
        far = reach(last.repeats, self.terms.alpha) + _NORMAL_AT_POWER
        effect = self.terms.min_effect + far * deviation
        effect += COLLAPSE / (1 - COLLAPSE) * mean  # what a gain has to outlast
        return effect if effect < 1 else None


@dataclass(frozen=True, slots=True)
class Exam(Gate):
    """The promotion rule for a frozen policy. Its units are tasks, each with its attempts' mean."""

    _min_seeds: ClassVar[int] = 1

    def _pairs(self, analysis: Analysis, cells: Matrix) -> Pairs:
        means = cells[: analysis.repeats].mean(axis=0, keepdims=True)
        means[0, : analysis.extra] = cells[:, : analysis.extra].mean(axis=0)
        return Pairs(means, analysis.repeats * analysis.tasks + analysis.extra, 0, len(cells))

    def least(self, source: Modelled) -> float | None:
        return smallest_effect(self, source, draws=100, step=0.01)


# --- where pairs of arms come from ---------------------------------------------------------------


class Population(Protocol):
    """A source of simulated comparisons between two sides that have the same harness."""

    def null_pair(self, repeats: int, tasks: int, rng: Random) -> tuple[Matrix, Matrix]:
        """Returns two [repeat, task] matrices of success (0 or 1) that differ by luck alone."""
        ...


@dataclass(frozen=True, slots=True)
class Modelled:
    """Simulated tasks with success rates, which a training seed shifts up or down together."""

    rates: Matrix  # [task], inside (0, 1)
    seed_sd: float = 0.0
    """The standard deviation of the mean rate between training seeds; 0 for a frozen policy."""
    swapped: float = 0.0
    """The expected share of tasks that swap success rates with each other in the second arm."""

    def null_pair(self, repeats: int, tasks: int, rng: Random) -> tuple[Matrix, Matrix]:
        from scipy.special import expit, logit

        rates = self.rates[rng.integers(0, self.rates.size, tasks)]
        # A step on the logit scale moves a mean by the average of p (1 - p).
        step = self.seed_sd / float(np.mean(self.rates * (1 - self.rates)))
        luck = rng.normal(0.0, step, (2, repeats, 1))
        other = rates.copy()
        if self.swapped:
            moved = rng.random(rates.size) < self.swapped
            other[moved] = rng.permutation(rates[moved])
        shares = (
            expit(logit(arm_rates) + shift)
            for arm_rates, shift in zip((rates, other), luck, strict=True)
        )
        before, after = (rng.random((repeats, tasks)) < share for share in shares)
        return before.astype(float), after.astype(float)


# --- figures -------------------------------------------------------------------------------------


class Rate(NamedTuple):
    """The share of simulated cases that were hits, with its 95 % interval and their number."""

    share: float
    low: float
    high: float
    cases: int

    @classmethod
    def of(cls, hits: int, cases: int) -> Rate:
        return cls(hits / cases, *wilson(hits, cases), cases)


def simulated_verdicts(
    gate: Gate, source: Population, delta: float, *, draws: int, seed: int = 0
) -> list[SimulatedVerdict]:
    """Returns the verdicts on `draws` simulated candidates with a true gain of `delta`."""
    endings = []
    for at in range(draws):
        rng = np.random.default_rng((seed, at))
        before, after = source.null_pair(gate.repeats, gate.tasks, rng)
        endings.append(gate.judge(_improved(after, delta, rng) - before, float(before.mean())))
    return endings


def power(gate: Gate, source: Population, delta: float, *, draws: int, seed: int = 0) -> Rate:
    """Returns the share of simulated candidates with a true gain of `delta` that are promoted."""
    endings = simulated_verdicts(gate, source, delta, draws=draws, seed=seed)
    return Rate.of(sum(ending.promoted for ending in endings), draws)


def smallest_effect(
    gate: Gate,
    source: Population,
    *,
    target_power: float = POWER,
    draws: int = 200,
    step: float = 0.0025,
    seed: int = 0,
) -> float | None:
    """Returns the least true gain that is promoted with probability `target_power`, or None.

    The gain is a multiple of `step`, found by simulation with `draws` candidates for each.
    """
    low, high = 0, round(1 / step)
    if power(gate, source, high * step, draws=draws, seed=seed).share < target_power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(gate, source, middle * step, draws=draws, seed=seed).share >= target_power
        low, high = (low, middle) if enough else (middle, high)
    return high * step


def _improved(clean: Matrix, delta: float, rng: Random) -> Matrix:
    """Returns successes in which random failures have become hits: the mean is `delta` higher."""
    failing = 1 - float(clean.mean())
    share = min(1.0, delta / failing) if failing > 0 else 0.0
    return np.where(rng.random(clean.shape) < share, 1.0, clean)
