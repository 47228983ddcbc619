"""Stored A/A runs: what luck looks like, and what the gate makes of it.

A/A runs are one harness measured many times: a trained policy once for each training seed, a frozen
one in fresh samples of the same tasks. Pairs of arms are drawn from them, runs first, tasks within,
and put before the loop's rule (`gate.simulate`). Where there are too few for a pair of arms of
their own, runs are drawn from a model of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.simulate import Exam, Gate, Matrix, Modelled, Population, Random, Rate

_EDGE = 0.02
"""Modelled rates keep this distance from 0 and 1: a few stored attempts prove neither."""


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


def population(clean: Matrix, gate: Gate) -> Population:
    """The stored runs where every arm can have its own, else a model of them."""
    if len(clean) < 2 * gate.repeats:
        return model(clean, gate)
    return StoredSamples(clean) if isinstance(gate, Exam) else StoredRuns(clean)


def model(clean: Matrix, gate: Gate) -> Modelled:
    """A model of what was measured. Samples of a frozen policy have no training seed."""
    return modelled(clean, 0.0 if isinstance(gate, Exam) else spread(clean).seed)


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
        raise ConfigError(f"{runs} run has no spread", hint="store four runs or more")
    shares = clean.mean(axis=1)
    total, df = float(shares.std(ddof=1)), runs - 1
    task_rates = clean.mean(axis=0)
    attempts = float(np.mean(task_rates * (1 - task_rates))) * runs / df / tasks
    ends = [total * math.sqrt(df / float(chi2.ppf(q, df))) for q in (0.975, 0.025)]
    seed = math.sqrt(max(0.0, total**2 - attempts))
    return Spread(runs, float(shares.mean()), total, ends[0], ends[1], seed)


def false_promotions(
    gate: Gate, source: Population, *, candidates: int, runs: int, seed: int = 0
) -> Rate:
    """The share of runs that promote at least one of so many candidates that change nothing."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(runs):
        hits += any(
            gate.judge(*null_differences(gate, source, rng)).promoted for _ in range(candidates)
        )
    return Rate.of(hits, runs)


def null_differences(gate: Gate, source: Population, rng: Random) -> tuple[Matrix, float]:
    """All that could ever be bought for a candidate that changes nothing, and the level of it."""
    before, after = source.null_pair(gate.repeats, gate.tasks, rng)
    return after - before, float(before.mean())
