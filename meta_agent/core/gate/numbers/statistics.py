"""The size of an effect, and how sure we may be of it.

Observations are paired: clean success of the candidate minus that of the baseline on the same task,
sample and training seed. Samples of a (task, seed) cell are averaged, giving d[s, t].

*One training seed* (a change of how a frozen policy acts): the task is the unit, and the bounds are
Student's on the per-task differences. Two arms that agree on all of a few tasks have no spread, so
Student's bound would rule any gain out. So for the upper bound (and for the lower one if all
differences are equal) the spread is taken with two more tasks, one won and one lost (Agresti and
Min, Statistics in Medicine 24, 2005; Bonett and Price, J. Educ. Behav. Stat. 37, 2012). A gain also
has to pass an exact permutation test (`sign_flip_p`), which assumes nothing more.

*Several training seeds* (a change that acts through training): seeds and tasks are crossed random
effects, d[s, t] = mu + seed_s + task_t + rest_st. With S seeds, T tasks and the two-way mean
squares MS_seed, MS_task and MS_rest, the variance of the grand mean is estimated without bias by
(MS_seed + MS_task - MS_rest) / (S T) (Searle, Casella and McCulloch, *Variance Components*, 1992,
ch. 4). The seed part has S - 1 degrees of freedom and must not be diluted by the hundreds that the
tasks have. So each part gets its own quantile and the two half-widths add in quadrature, after
Graybill and Wang (JASA 75, 1980) for sums of mean squares:

    half = sqrt(t[S-1]^2 * MS_seed / (S T) + t[T-1]^2 * max(0, MS_task - MS_rest) / (S T))

If the seeds dominate, this is the t-interval on the per-seed means. With two seeds t is very large,
so two seeds alone hardly ever prove anything. That is right.

A bound that holds `anytime` takes the seed part from the sequential test (`sequential.half_width`)
in place of Student's, so that it holds after every pair of training runs at once. The task part
needs none: the tasks are drawn once, and looking again does not draw them anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meta_agent.core.gate._records import Arm, OutcomeRow
from meta_agent.core.gate.numbers.sequential import half_width, wealth_of
from meta_agent.core.protocols import Effect

Matrix = NDArray[np.float64]


# --- pairing ------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """The candidate's clean success minus the baseline's, by training seed and task."""

    cells: Matrix  # [training seed, task]
    pairs: int  # pairs of attempts with an outcome on both sides
    lost: int  # pairs in which either side has no outcome
    samples: int  # samples of a cell, at most
    dropped_tasks: int = 0  # tasks without a single pair in some seed
    tasks: tuple[str, ...] = ()  # their keys, one a column
    level: float = 1.0  # the baseline's clean success: what a run that collapses can lose

    @property
    def by_seed(self) -> Matrix:
        """Returns the mean difference of each training seed; nothing without pairs."""
        return np.asarray(self.cells.mean(axis=1) if self.cells.size else self.cells.ravel())

    @property
    def mean(self) -> float:
        """Returns the mean difference, 0 without pairs."""
        return float(self.cells.mean()) if self.cells.size else 0.0


def pair(baseline: Arm, candidate: Arm) -> Pairs:
    """Returns the differences between two arms, paired by training seed, task and sample number.

    A pair in which a side has no outcome is counted as lost and gives no difference.
    """
    cells: list[dict[str, list[float]]] = []
    lost = 0
    for seed in sorted(set(baseline.seeds) & set(candidate.seeds)):
        seed_cells, missing = _seed_cells(baseline.seeds[seed], candidate.seeds[seed])
        cells.append(seed_cells)
        lost += missing
    outcomes = [row.clean for row in baseline.rows() if row.clean is not None]
    level = sum(outcomes) / len(outcomes) if outcomes else 1.0
    contents = {row.task_key: row.task_hash for row in baseline.rows() if row.task_hash}
    return merge_equal_tasks(_matrix(cells, lost)._replace(level=level), contents)


def merge_equal_tasks(pairs: Pairs, contents: Mapping[str, str]) -> Pairs:
    """Returns the pairs with the columns of tasks of equal content replaced by their mean.

    `contents` maps task keys to content hashes.
    """
    columns: dict[str, list[int]] = {}
    for at, key in enumerate(pairs.tasks):
        columns.setdefault(contents.get(key, f"\0{key}"), []).append(at)
    if len(columns) == len(pairs.tasks):
        return pairs
    cells = np.stack([pairs.cells[:, at].mean(axis=1) for at in columns.values()], axis=1)
    samples = pairs.samples * max(map(len, columns.values()))
    names = tuple(pairs.tasks[at[0]] for at in columns.values())
    return pairs._replace(cells=cells, samples=samples, tasks=names)


def _seed_cells(
    before: Iterable[OutcomeRow], after: Iterable[OutcomeRow]
) -> tuple[dict[str, list[float]], int]:
    old = {row.key: row.clean for row in before}
    cells: dict[str, list[float]] = {}
    lost = 0
    for row in after:
        was, now = old.pop(row.key, None), row.clean
        if was is None or now is None:
            lost += 1
            continue
        cells.setdefault(row.task_key, []).append(float(now) - float(was))
    return cells, lost + len(old)


def _matrix(cells: Sequence[Mapping[str, Sequence[float]]], lost: int) -> Pairs:
    everywhere = sorted(set.intersection(*(set(c) for c in cells))) if cells else []
    rows = [[math.fsum(c[task]) / len(c[task]) for task in everywhere] for c in cells]
    counts = [len(c[task]) for c in cells for task in everywhere]
    dropped = len({task for c in cells for task in c}) - len(everywhere)
    matrix = np.asarray(rows, dtype=float).reshape(len(cells), len(everywhere))
    return Pairs(matrix, sum(counts), lost, max(counts, default=0), dropped, tuple(everywhere))


# --- effect -------------------------------------------------------------------------------------


class _Spread(NamedTuple):
    """The variance of a mean difference, and by source of error the half-width at a given alpha."""

    variance: float
    sources: tuple[Callable[[float], float], ...]

    def half(self, alpha: float) -> float:
        return math.hypot(*(half_of(alpha) for half_of in self.sources))


def effect(pairs: Pairs, *, alpha: float, anytime: bool = False, confidence: bool = True) -> Effect:
    """Returns the mean difference in clean success with one-sided bounds, each at error `alpha`.

    Bounds that hold `anytime` may be looked at after every pair of training runs. With fewer than
    two tasks, or too few training seeds, the bounds are -1 and 1. `p_improvement` takes longer than
    the bounds; it is None without `confidence`.
    """
    (seeds, tasks), delta = pairs.cells.shape, pairs.mean
    if not seeds or tasks < 2 or (anytime and seeds < 2):
        return Effect(delta, -1.0, 1.0, pairs.pairs, seeds)
    below, above = _spreads(pairs.cells, anytime)
    low, high = max(-1.0, delta - below.half(alpha)), min(1.0, delta + above.half(alpha))
    sure = None
    if confidence and anytime:  # the bets on the mean's sign hold whenever one stops
        against = 1 / wealth_of(pairs.by_seed if delta > 0 else -pairs.by_seed)
        sure = max(0.5, 1 - against) if delta > 0 else min(0.5, against)
    elif confidence:
        sure = _confidence(delta, below if delta > 0 else above)
    return Effect(delta, low, high, pairs.pairs, seeds, sure)


def standard_error(pairs: Pairs) -> float:
    """Returns the standard error of the mean difference; 0 if there are fewer than two tasks."""
    seeds, tasks = pairs.cells.shape
    if not seeds or tasks < 2:
        return 0.0
    return math.sqrt(_spreads(pairs.cells, anytime=False)[0].variance)


def _spreads(cells: Matrix, anytime: bool) -> tuple[_Spread, _Spread]:
    """Returns the spread for the bound below the mean, and the one for the bound above it."""
    if len(cells) > 1 and cells.any():
        return _crossed(cells, anytime)
    row = cells.mean(axis=0)  # training seeds that differ nowhere tell no more than one does
    cautious = _over_tasks(np.append(row, (1.0, -1.0)))
    return (_over_tasks(row) if row.var() else cautious), cautious


def _over_tasks(row: Matrix) -> _Spread:
    variance = float(row.var(ddof=1)) / row.size
    return _Spread(variance, (_student(variance, row.size - 1),))


def _crossed(cells: Matrix, anytime: bool) -> tuple[_Spread, _Spread]:
    (seeds, tasks), ms = cells.shape, mean_squares(cells)
    by_seed, by_task = ms.seed / tasks / seeds, max(0.0, ms.task - ms.rest) / (seeds * tasks)
    on_tasks, shares = _student(by_task, tasks - 1), cells.mean(axis=1)

    def spread(worst: float) -> _Spread:
        def on_seeds(alpha: float) -> float:
            return half_width(seeds, math.sqrt(by_seed), worst, alpha)

        on_either = on_seeds if anytime else _student(by_seed, seeds - 1)
        return _Spread(math.fsum((by_seed, by_task)), (on_either, on_tasks))

    mean = cells.mean()
    return spread(float(mean - shares.min())), spread(float(shares.max() - mean))


def _student(variance: float, df: int) -> Callable[[float], float]:
    return lambda alpha: t_quantile(df, alpha) * math.sqrt(variance)


class MeanSquares(NamedTuple):
    """The mean squares of a two-way analysis of variance: training seeds, tasks and residual."""

    seed: float
    task: float
    rest: float


def mean_squares(cells: Matrix) -> MeanSquares:
    """Returns the mean squares of a [seed, task] matrix, which needs two rows and two columns."""
    seeds, tasks = cells.shape
    by_seed = cells.mean(axis=1) - cells.mean()
    by_task = cells.mean(axis=0) - cells.mean()
    rest = cells - cells.mean() - by_seed[:, None] - by_task[None, :]
    return MeanSquares(
        tasks * float(by_seed @ by_seed) / (seeds - 1),
        seeds * float(by_task @ by_task) / (tasks - 1),
        float((rest * rest).sum()) / ((seeds - 1) * (tasks - 1)),
    )


def t_quantile(df: float, alpha: float) -> float:
    """Returns the value that a t-distributed variable exceeds with chance `alpha`."""
    from scipy.special import stdtrit

    return float(stdtrit(df, 1 - alpha))


def _confidence(delta: float, spread: _Spread) -> float:
    """Returns the largest confidence 1 - a at which the one-sided lower bound is above zero."""
    if spread.variance == 0:
        return 0.5 if delta == 0 else float(delta > 0)
    low, high = 1e-9, 0.5
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if spread.half(middle) < abs(delta) else (middle, high)
    return 1 - high if delta > 0 else high


# --- exact test ---------------------------------------------------------------------------------

FINEST: Final = 2520
"""The most steps of a difference that the exact test tells apart: lcm(1..10).

20 samples would need 2e8 steps.
"""


class SignFlip(NamedTuple):
    """The result of the exact one-sided sign-flip test over tasks, with the p-value `p`.

    `discordant` is the number of tasks on which baseline and candidate differ, and `tied` the
    chance of exactly the observed sum. With few tasks it is a large part of `p`.
    """

    p: float
    discordant: int
    tied: float = 0.0

    def randomised_p(self, tie: float) -> float:
        """Returns the p-value of the randomised test, whose level is exact.

        `tie`, drawn evenly from [0, 1), is the share of the ties (`tied`) that the p-value counts.
        """
        return self.p - (1 - tie) * self.tied


def sign_flip_p(row: Matrix, samples: int) -> SignFlip:
    """Returns the exact sign-flip test of the differences `row`, one per task.

    The p-value is the chance that the sum, with random signs, is at least the observed sum.
    `samples` is the number of attempts at a task, from which the step of the differences follows.
    """
    samples = max(1, samples)
    whole = np.allclose(row * samples, np.rint(row * samples), atol=1e-6)
    scale = samples if whole else min(FINEST, math.lcm(*range(1, samples + 1)))
    units = np.rint(row * scale).astype(int)
    sizes = np.abs(units[units != 0])
    dist = np.ones(1)
    for size in sizes:
        wider = np.zeros(dist.size + 2 * int(size))
        wider[: dist.size] += dist / 2
        wider[2 * int(size) :] += dist / 2
        dist = wider
    observed = int(units.sum()) + int(sizes.sum())
    above, tied = float(dist[observed + 1 :].sum()), float(dist[observed])
    return SignFlip(min(1.0, above + tied), int(sizes.size), tied)


def tie_of(salt: str, pairs: Pairs) -> float:
    """Returns a number in [0, 1) that breaks ties of the exact test (`SignFlip.randomised_p`).

    It is a hash of a salt, declared beforehand, and of the differences without their signs. So
    nobody can choose it, and it favours neither side of the comparison.
    """
    distances = [round(abs(float(difference)), 9) for difference in pairs.cells[0]]
    text = json.dumps([salt, list(pairs.tasks), distances]).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "big") / 2**56


def worst_case(pairs: Pairs) -> float:
    """Returns the mean gain if every pair with a lost attempt counts against the candidate."""
    total = pairs.pairs + pairs.lost
    return (pairs.mean * pairs.pairs - pairs.lost) / total if total else 0.0


# --- what a promotion does to its own estimate ---------------------------------------------------


def given_promotion(estimate: float, error: float, bar: float, least: float = 0.0) -> float:
    """Returns the most likely gain behind an estimate that was promoted because it exceeds `bar`.

    Promoted estimates were lucky on average. The result, at least `least`, maximises the likelihood
    under that condition (Zhong and Prentice, Biostatistics 9, 2008). The estimate is taken as
    normal with the standard error `error`.
    """
    if error <= 0 or estimate <= bar:
        return max(least, estimate)
    low, high = estimate - 20 * error, estimate
    for _ in range(60):
        middle = (low + high) / 2
        lifted = middle + error * _mean_above((bar - middle) / error)
        low, high = (middle, high) if lifted < estimate else (low, middle)
    return max(least, (low + high) / 2)


def _mean_above(threshold: float) -> float:
    """Returns the mean of a standard normal variable that lies above `threshold`."""
    from scipy.special import log_ndtr

    log_density = -threshold * threshold / 2 - 0.5 * math.log(2 * math.pi)
    return math.exp(log_density - float(log_ndtr(-threshold)))
