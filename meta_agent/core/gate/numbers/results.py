"""Summary figures of runs and comparisons: mean, interquartile mean, chance of improvement.

After Agarwal et al. (*Deep Reinforcement Learning at the Edge of the Statistical Precipice*,
NeurIPS 2021). The unit is a training run: its score is its share of tasks solved cleanly. The
interquartile mean (IQM) drops the lowest and the highest quarter of the runs, so one lucky run does
not carry a result. It is taken over runs, never over single attempts: of zeros and ones it would be
(mean - 1/4) / (1/2), the mean again with its ends cut off.

Intervals come from scipy's bootstrap. It draws whole training runs (a run's luck is in all of its
tasks) and tasks, the same for both sides. Percentiles of few runs are too narrow, so they are
expanded as Hesterberg (*The American Statistician* 69, 2015) proposes. Simulated, nominal 95 %
intervals of the mean of normal runs then cover 92 % (5 runs), 95 % (10) and 94 % (20). Of 3 runs
they cover 74 %: no bootstrap can see beyond the best and the worst run, so show such runs one by
one instead.

Does not cover: promotions. These figures describe what was measured; `judge` decides, by tests
whose error is controlled. With a single run an interval speaks of tasks only, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON

Matrix = NDArray[np.float64]
Statistic = Literal["mean", "iqm"]

DRAWS: Final = 4000
CONFIDENCE: Final = 0.95
_BATCH: Final = 250
"""Resamples that are held in memory at once, each with every run's success at every task."""


class Estimate(NamedTuple):
    """A figure over the scores of training runs, with its 95 % interval and the number of runs."""

    value: float
    low: float
    high: float
    runs: int
    """Runs of the smaller side. With 1, the interval does not cover luck of runs."""

    def to_json(self) -> dict[str, JSON]:
        return self._asdict()


def interval(scores: ArrayLike, statistic: Statistic = "iqm", *, draws: int = DRAWS) -> Estimate:
    """Returns the "mean" or interquartile mean ("iqm") of runs, with a 95 % bootstrap interval.

    `scores` holds a share for each run, or success by [run, task]. Raises ConfigError if there is
    one score only.
    """
    return _estimate(_STATISTICS[statistic], draws, scores)


def difference(
    a: ArrayLike, b: ArrayLike, statistic: Statistic = "mean", *, draws: int = DRAWS
) -> Estimate:
    """Returns the statistic of `a` minus that of `b`, with a bootstrap interval.

    Raises ConfigError if the tasks of `a` and `b` differ.
    """
    figure = _STATISTICS[statistic]
    return _estimate(lambda ours, theirs: figure(ours) - figure(theirs), draws, a, b)


def improvement(a: ArrayLike, b: ArrayLike, *, draws: int = DRAWS) -> Estimate:
    """Returns the chance that a run of `a` scores above a run of `b`, with a bootstrap interval.

    Ties count half. Raises ConfigError if the tasks of `a` and `b` differ.
    """
    return _estimate(_wins, draws, a, b)


# --- figures: over the last axis, the runs -------------------------------------------------------


def _iqm(scores: Matrix) -> Matrix:
    from scipy.stats import trim_mean

    return np.asarray(trim_mean(scores, 0.25, axis=-1))


_STATISTICS: Final[Mapping[Statistic, Callable[[Matrix], Matrix]]] = {
    "mean": lambda scores: np.asarray(scores.mean(axis=-1)),
    "iqm": _iqm,
}


def _wins(ours: Matrix, theirs: Matrix) -> Matrix:
    gaps = ours[..., :, None] - theirs[..., None, :]
    # Shares of the same tasks differ by 1/tasks at least: what is smaller is rounding.
    return np.asarray(((gaps > 1e-12) + 0.5 * (abs(gaps) <= 1e-12)).mean(axis=(-2, -1)))


# --- intervals ---------------------------------------------------------------------------------


def _estimate(figure: Callable[..., Matrix], draws: int, *scores: ArrayLike) -> Estimate:
    from scipy.stats import bootstrap

    sides = [_matrix(values) for values in scores]
    tasks, fewest = sides[0].shape[1], min(map(len, sides))
    if any(side.shape[1] != tasks for side in sides):
        shapes = " and ".join(str(side.shape[1]) for side in sides)
        raise ConfigError(f"the two sides have {shapes} tasks; pass both with the same tasks")
    sources = [np.arange(size) for size in (tasks, *map(len, sides))]
    drawn = [at for at, source in enumerate(sources) if source.size > 1]

    def of_resamples(*indices: NDArray[np.int64], axis: int = -1) -> Matrix:
        """Returns the figure of each resample, given its indices of tasks and of runs."""
        chosen = dict(zip(drawn, indices, strict=True))
        weighed = [
            side[:, chosen[0]].mean(axis=-1).T if 0 in chosen else side.mean(axis=1)[None, :]
            for side in sides
        ]
        return figure(
            *(
                np.take_along_axis(shares, chosen[at], axis=1) if at in chosen else shares
                for at, shares in enumerate(weighed, start=1)
            )
        )

    value = float(figure(*(side.mean(axis=1) for side in sides)))
    tail = _expanded_tail(sides)
    ends = bootstrap(
        [sources[at] for at in drawn],
        of_resamples,
        n_resamples=draws,
        batch=_BATCH,
        vectorized=True,
        confidence_level=1 - 2 * tail,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    # A statistic of few runs may lie outside its own cloud's percentiles only by rounding.
    return Estimate(value, min(float(ends.low), value), max(float(ends.high), value), fewest)


def _expanded_tail(sides: list[Matrix]) -> float:
    """Returns the tail whose normal quantile is sqrt(n / (n - 1)) times that of Student's t."""
    from scipy.special import ndtr, stdtrit

    runs = min(map(len, sides))
    units = sides[0].shape[1] if runs == 1 else runs  # with one run, tasks are all there is
    if units < 2:
        raise ConfigError("one score has no interval; pass at least 2 runs, or success by task")
    freedom = units - 1 if runs == 1 else sum(len(side) - 1 for side in sides)
    wide = math.sqrt(units / (units - 1)) * stdtrit(freedom, (1 + CONFIDENCE) / 2)
    return float(ndtr(-wide))


def _matrix(values: ArrayLike) -> Matrix:
    """Returns a [run, task] matrix. A vector becomes one with a single task."""
    matrix = np.asarray(values, dtype=float)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise ConfigError(
            f"the scores have the shape {matrix.shape}; pass finite numbers, one for each run or "
            "for each (run, task)"
        )
    return matrix
