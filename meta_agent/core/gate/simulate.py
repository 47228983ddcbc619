"""What the gate does to arms that differ by luck, or by a known gain: simulated from stored runs.

A/A runs are one harness measured many times: a trained policy once for each training seed, a frozen
one in fresh samples of the same tasks. Simulated pairs of arms are drawn from them, runs first,
tasks within, and put before the very rule that decides in the loop (`Gate.promotes` asks
`judge.kind_of_pairs`, look by look). Where there are too few stored runs for a pair of arms of
their own each, runs are drawn from a model of them instead: a task's rate, and on the logit scale a
normal effect of the training seed with the measured spread.

Promises: `differences` of a null pair have mean zero whatever the runs are; a gain of size `delta`
turns failures into successes at random until the mean has risen by that much; equal seeds give
equal figures, and power rises with the gain on the same draws.

Does not cover: validity (simulated rollouts have no conduct), the dependence of candidates on a
shared baseline (each pair is drawn anew, which can only raise the rate of runs with an error), and
luck that stored runs do not show: what few of them cannot tell is in `Spread`'s interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.judge import kind_of_pairs
from meta_agent.core.gate.numbers._course import COLLAPSE, Course
from meta_agent.core.gate.numbers._intervals import Interval, wilson
from meta_agent.core.gate.numbers.sequential import t_reach
from meta_agent.core.gate.numbers.statistics import ErrorBudget, Pairs
from meta_agent.core.protocols import Factor, VerdictKind

Matrix = NDArray[np.float64]
Random = np.random.Generator

POWER: Final = 0.8
_NORMAL_AT_POWER: Final = 0.8416
_EDGE: Final = 0.02
"""Modelled rates keep this distance from 0 and 1: a few stored attempts prove neither."""


# --- the rule in force ---------------------------------------------------------------------------


class Look(NamedTuple):
    """What stands behind one look: so many training seeds, or samples of so many tasks."""

    stage: int
    repeats: int
    tasks: int
    final: bool
    course: Course | None
    extra: int = 0
    """Of a frozen policy: so many tasks have one more sample."""


class Passed(NamedTuple):
    """How one simulated candidate ended, and what had been bought by then."""

    kind: VerdictKind
    repeats: int
    tasks: int

    @property
    def promoted(self) -> bool:
        return self.kind is VerdictKind.PROMOTE


@dataclass(frozen=True, slots=True)
class Gate:
    """The loop's rule, as far as numbers decide, with all that may be bought."""

    looks: tuple[Look, ...]
    budget: ErrorBudget
    min_effect: float = 0.0
    ties: str = ""

    def __post_init__(self) -> None:
        if not self.looks:
            raise ConfigError("a gate without a look decides nothing")

    @property
    def repeats(self) -> int:
        """Training seeds, or samples of a task, that a candidate may use up."""
        return max(look.repeats + bool(look.extra) for look in self.looks)

    @property
    def tasks(self) -> int:
        return max(look.tasks for look in self.looks)

    def promotes(self, differences: Matrix, level: float = 1.0) -> Passed:
        """Whether [repeat, task] differences of a candidate get it promoted, look by look.

        `level` is the baseline's clean success.
        """
        for look in self.looks:
            repeats = look.repeats + bool(look.extra)
            kind, goes_on = self.decides(look, differences[:repeats, : look.tasks], level)
            if not goes_on:
                break
        return Passed(kind, look.repeats, look.tasks)

    def decides(self, look: Look, cells: Matrix, level: float) -> tuple[VerdictKind, bool]:
        """The verdict on what a look has bought, and whether more is."""
        return self._kind("reward", look, Pairs(cells, cells.size, 0, 1, level=level))

    def stored(self, clean: Matrix) -> Population:
        """What was measured, as arms can be drawn from it."""
        return StoredRuns(clean)

    def model(self, clean: Matrix) -> Modelled:
        """A model of what was measured."""
        return modelled(clean, spread(clean).seed)

    def least(self, source: Modelled) -> float | None:
        """The least gain that is found with `POWER`, before anything is measured.

        The sequential test at its last pair, turned round: simulated figures lie within a tenth.
        """
        last, mean = self.looks[-1], float(source.rates.mean())
        luck = float(np.mean(source.rates * (1 - source.rates))) / last.tasks
        deviation = math.sqrt(2 * (source.seed_sd**2 + luck) / last.repeats)
        reach = t_reach(last.repeats, self.budget.at(0))
        effect = self.min_effect + (reach + _NORMAL_AT_POWER) * deviation
        effect += COLLAPSE / (1 - COLLAPSE) * mean  # what a gain has to outlast
        return effect if effect < 1 else None

    def _kind(self, factor: Factor, look: Look, pairs: Pairs) -> tuple[VerdictKind, bool]:
        return kind_of_pairs(
            pairs,
            factor=factor,
            budget=self.budget,
            look=look.stage,
            final_look=look.final,
            min_effect=self.min_effect,
            course=look.course,
            ties=self.ties,
        )


@dataclass(frozen=True, slots=True)
class Exam(Gate):
    """The same of a frozen policy: samples of a task are one cell."""

    def decides(self, look: Look, cells: Matrix, level: float) -> tuple[VerdictKind, bool]:
        means = cells[: look.repeats].mean(axis=0, keepdims=True)
        means[0, : look.extra] = cells[:, : look.extra].mean(axis=0)
        attempts = look.repeats * look.tasks + look.extra
        return self._kind("scaffold", look, Pairs(means, attempts, 0, len(cells), level=level))

    def stored(self, clean: Matrix) -> Population:
        return StoredSamples(clean)

    def model(self, clean: Matrix) -> Modelled:
        return modelled(clean, 0.0)

    def least(self, source: Modelled) -> float | None:
        return smallest_effect(self, source, draws=100, step=0.01)


# --- where pairs of arms come from ---------------------------------------------------------------


class Population(Protocol):
    """Something that gives pairs of arms of one harness."""

    def null_pair(self, repeats: int, tasks: int, rng: Random) -> tuple[Matrix, Matrix]:
        """Two arms of [repeat, task] success that differ by luck alone, on the same tasks."""
        ...


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """Training runs as they were: whole runs, each in one arm at most."""

    clean: Matrix  # [run, task]

    def null_pair(self, repeats: int, tasks: int, rng: Random) -> tuple[Matrix, Matrix]:
        drawn = rng.choice(len(self.clean), size=2 * repeats, replace=False)
        columns = rng.integers(0, self.clean.shape[1], tasks)
        both = self.clean[drawn][:, columns]
        return both[:repeats], both[repeats:]


@dataclass(frozen=True, slots=True)
class StoredSamples:
    """Attempts of a frozen policy: those at one task are exchangeable."""

    clean: Matrix  # [sample, task]

    def null_pair(self, repeats: int, tasks: int, rng: Random) -> tuple[Matrix, Matrix]:
        columns = rng.integers(0, self.clean.shape[1], tasks)
        both = rng.permuted(self.clean[:, columns], axis=0)[: 2 * repeats]
        return both[:repeats], both[repeats:]


@dataclass(frozen=True, slots=True)
class Modelled:
    """Attempts drawn from rates of tasks, and training seeds that shift all of them."""

    rates: Matrix  # [task], inside (0, 1)
    seed_sd: float = 0.0
    """Between-seed deviation of the mean, attempts aside; 0 for a frozen policy."""
    swapped: float = 0.0
    """Of the tasks, the share at which one arm is as good as the other is at another of them."""

    def null_pair(self, repeats: int, tasks: int, rng: Random) -> tuple[Matrix, Matrix]:
        from scipy.special import expit, logit

        rates = self.rates[rng.integers(0, self.rates.size, tasks)]
        # A step on the logit scale moves a mean by the average of p (1 - p).
        step = self.seed_sd / float(np.mean(self.rates * (1 - self.rates)))
        luck = rng.normal(0.0, step, (2, repeats, 1))
        other = _swapped(rates, self.swapped, rng) if self.swapped else rates
        shares = (
            expit(logit(arm_rates) + shift)
            for arm_rates, shift in zip((rates, other), luck, strict=True)
        )
        before, after = (rng.random((repeats, tasks)) < share for share in shares)
        return before.astype(float), after.astype(float)


def _swapped(rates: Matrix, share: float, rng: Random) -> Matrix:
    moved = rng.random(rates.size) < share
    swapped_rates = rates.copy()
    swapped_rates[moved] = rng.permutation(rates[moved])
    return swapped_rates


def population(clean: Matrix, gate: Gate) -> Population:
    """The stored runs where every arm can have its own, else a model of them."""
    if len(clean) >= 2 * gate.repeats:
        return gate.stored(clean)
    return gate.model(clean)


def modelled(clean: Matrix, seed_sd: float) -> Modelled:
    """Runs like the stored ones whose training seeds lie so far apart."""
    return Modelled(_rates(clean), seed_sd)


def _rates(clean: Matrix) -> Matrix:
    """Rates of tasks that vary as much as the true ones, not as much as a few attempts do."""
    runs, observed, mean = len(clean), clean.mean(axis=0), float(clean.mean())
    luck = float(np.mean(observed * (1 - observed))) / max(1, runs - 1)
    variance = float(observed.var(ddof=1)) if observed.size > 1 else 0.0
    keep = math.sqrt(max(0.0, variance - luck) / variance) if variance > 0 else 0.0
    return np.asarray(np.clip(mean + keep * (observed - mean), _EDGE, 1 - _EDGE))


# --- figures -------------------------------------------------------------------------------------


class Spread(NamedTuple):
    """How far training runs of one harness lie apart. Shares, not points."""

    runs: int
    mean: float
    total: float
    """Standard deviation of a run's clean success on these tasks."""
    low: float
    high: float
    """95 % interval of `total`, taking runs as normal."""
    seed: float
    """What of it is the training seed's, the luck of single attempts aside."""


def spread(clean: Matrix) -> Spread:
    """The spread between runs of [run, task] success."""
    from scipy.stats import chi2

    runs, tasks = clean.shape
    if runs < 2:
        raise ConfigError(f"{runs} run has no spread", hint="meta-agent calibrate --seeds 4")
    shares = clean.mean(axis=1)
    total, df = float(shares.std(ddof=1)), runs - 1
    task_rates = clean.mean(axis=0)
    attempts = float(np.mean(task_rates * (1 - task_rates))) * runs / df / tasks
    ends = [total * math.sqrt(df / float(chi2.ppf(q, df))) for q in (0.975, 0.025)]
    seed = math.sqrt(max(0.0, total**2 - attempts))
    return Spread(runs, float(shares.mean()), total, ends[0], ends[1], seed)


class Rate(NamedTuple):
    """A share of simulated cases with its 95 % interval."""

    share: float
    low: float
    high: float
    cases: int

    @classmethod
    def of(cls, hits: int, cases: int) -> Rate:
        ends: Interval = wilson(hits, cases)
        return cls(hits / cases, ends.low, ends.high, cases)


def false_promotions(
    gate: Gate, source: Population, *, candidates: int, runs: int, seed: int = 0
) -> Rate:
    """The share of runs that promote at least one of so many candidates that change nothing."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(runs):
        hits += any(
            gate.promotes(*null_differences(gate, source, rng)).promoted for _ in range(candidates)
        )
    return Rate.of(hits, runs)


def null_differences(gate: Gate, source: Population, rng: Random) -> tuple[Matrix, float]:
    """All that could ever be bought for a candidate that changes nothing, and the level of it."""
    before, after = source.null_pair(gate.repeats, gate.tasks, rng)
    return after - before, float(before.mean())


def courses(
    gate: Gate, source: Population, delta: float, *, draws: int, seed: int = 0
) -> list[Passed]:
    """How so many candidates with a true gain of `delta` end. Equal seeds: the same draws."""
    endings = []
    for at in range(draws):
        rng = np.random.default_rng((seed, at))
        before, after = source.null_pair(gate.repeats, gate.tasks, rng)
        endings.append(gate.promotes(_improved(after, delta, rng) - before, float(before.mean())))
    return endings


def power(gate: Gate, source: Population, delta: float, *, draws: int, seed: int = 0) -> Rate:
    """The share of candidates with a true gain of `delta` that are promoted."""
    endings = courses(gate, source, delta, draws=draws, seed=seed)
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
    """The least true gain that is promoted with probability `target_power`; None: none is."""
    low, high = 0, round(1 / step)
    if power(gate, source, high * step, draws=draws, seed=seed).share < target_power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(gate, source, middle * step, draws=draws, seed=seed).share >= target_power
        low, high = (low, middle) if enough else (middle, high)
    return high * step


def _improved(clean: Matrix, delta: float, rng: Random) -> Matrix:
    """Failures turned into successes at random until the mean is `delta` higher, or 1."""
    failing = 1 - float(clean.mean())
    share = min(1.0, delta / failing) if failing > 0 else 0.0
    return np.where(rng.random(clean.shape) < share, 1.0, clean)
