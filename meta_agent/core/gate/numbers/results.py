"""Summary figures of runs and comparisons: mean, interquartile mean, chance of improvement.

After Agarwal et al. (*Deep Reinforcement Learning at the Edge of the Statistical Precipice*,
NeurIPS 2021). The unit is a training run: its score on a suite is its share of tasks solved
cleanly. The interquartile mean (IQM) drops the lowest and the highest quarter of all (run, suite)
scores, so one lucky run does not carry a result. It is taken over runs, never over single attempts:
of zeros and ones it would be (mean - 1/4) / (1/2), the mean again with its ends cut off.

Intervals come from a bootstrap that is stratified by suite. Within each suite, whole training runs
are drawn (a run's luck is in all of its tasks), then tasks, the same for both sides. Percentiles of
few runs are too narrow, so they are expanded as Hesterberg (*The American Statistician* 69, 2015)
proposes. Simulated, nominal 95 % intervals of the mean of normal runs then cover 92 % (5 runs), 95
% (10) and 94 % (20). Of 3 runs they cover 74 %: no bootstrap can see beyond the best and the worst
run, so show such runs one by one instead.

Does not cover: promotions. These figures describe what was measured; `judge` decides, by tests
whose error is controlled. With a single run an interval speaks of tasks only, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON

Matrix = NDArray[np.float64]
Scores = ArrayLike | Mapping[str, ArrayLike]
"""Scores of one suite, or of several by name: a share for each run, or success by (run, task)."""

DRAWS: Final = 4000
CONFIDENCE: Final = 0.95
QUARTER: Final = 0.25


class Statistic(Protocol):
    """A function that reduces an array of scores over its last axis, the runs, to one figure."""

    def __call__(self, scores: Matrix, /) -> Matrix: ...


class Estimate(NamedTuple):
    """A figure over the scores of training runs, with its 95 % interval and the number of runs."""

    value: float
    low: float
    high: float
    runs: int
    """Runs of the smallest suite and side. With 1, the interval does not cover luck of runs."""

    def to_json(self) -> dict[str, JSON]:
        return self._asdict()


def mean(scores: Scores) -> float:
    """Returns the mean score of all runs of all suites. Raises ConfigError without scores."""
    return float(_mean(_flat(_suites(scores))))


def iqm(scores: Scores) -> float:
    """Returns the mean of the middle half of all run scores. Raises ConfigError without scores."""
    return float(_iqm(_flat(_suites(scores))))


def interval(
    scores: Scores, statistic: str = "iqm", *, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """Returns the "mean" or interquartile mean ("iqm") of runs, with a 95 % bootstrap interval.

    Raises ConfigError if there is one score only.
    """
    suites, figure = _suites(scores), _STATISTICS[statistic]
    drawn = _Draws(draws, seed)
    cloud = figure(_joined([drawn.runs(matrix, drawn.tasks(matrix)) for matrix in suites]))
    return _estimate(float(figure(_flat(suites))), cloud, suites)


def difference(
    a: Scores, b: Scores, statistic: str = "mean", *, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """Returns the statistic ("mean" or "iqm") of `a` minus that of `b`, with a bootstrap interval.

    Raises ConfigError if the suites or tasks of `a` and `b` differ.
    """
    ours, theirs, figure = *_both(a, b), _STATISTICS[statistic]
    pairs = _drawn_together(ours, theirs, _Draws(draws, seed))
    cloud = figure(_joined([our_scores for our_scores, _ in pairs])) - figure(
        _joined([their_scores for _, their_scores in pairs])
    )
    value = float(figure(_flat(ours)) - figure(_flat(theirs)))
    return _estimate(value, cloud, [*ours, *theirs])


def probability_of_improvement(a: Scores, b: Scores) -> float:
    """Returns the chance that a run of `a` scores above a run of `b`, averaged over suites.

    Ties count half. Raises ConfigError if the suites or tasks of `a` and `b` differ.
    """
    return float(np.mean([_wins(*_scored(*pair)) for pair in zip(*_both(a, b), strict=True)]))


def improvement(a: Scores, b: Scores, *, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """Returns `probability_of_improvement` with a bootstrap interval; raises as that does."""
    ours, theirs = _both(a, b)
    pairs = _drawn_together(ours, theirs, _Draws(draws, seed))
    cloud = np.mean([_wins(our_scores, their_scores) for our_scores, their_scores in pairs], axis=0)
    value = probability_of_improvement(a, b)
    return _estimate(value, cloud, [*ours, *theirs])


# --- figures -----------------------------------------------------------------------------------


def _mean(scores: Matrix) -> Matrix:
    return np.asarray(scores.mean(axis=-1))


def _iqm(scores: Matrix) -> Matrix:
    """Cuts floor(n / 4) scores at each end, as `scipy.stats.trim_mean(scores, 0.25)` does."""
    cut = int(QUARTER * scores.shape[-1])
    middle = np.sort(scores, axis=-1)[..., cut : scores.shape[-1] - cut]
    return np.asarray(middle.mean(axis=-1))


_STATISTICS: Final[Mapping[str, Statistic]] = {"mean": _mean, "iqm": _iqm}


def _wins(ours: Matrix, theirs: Matrix) -> Matrix:
    gaps = ours[..., :, None] - theirs[..., None, :]
    # Shares of the same tasks differ by 1/tasks at least: what is smaller is rounding.
    return np.asarray(((gaps > 1e-12) + 0.5 * (abs(gaps) <= 1e-12)).mean(axis=(-2, -1)))


# --- drawing -----------------------------------------------------------------------------------


class _Draws:
    """The bootstrap's random choices."""

    def __init__(self, draws: int, seed: int) -> None:
        self.count = draws
        self._rng = np.random.default_rng(seed)

    def tasks(self, matrix: Matrix) -> Matrix:
        """Returns a [resample, task] matrix of the tasks' weights, which sum to 1."""
        tasks = matrix.shape[1]
        drawn = self._rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=self.count)
        return np.asarray(drawn / tasks)

    def runs(self, matrix: Matrix, weights: Matrix) -> Matrix:
        """Returns a [resample, run] matrix of scores; draws runs with replacement, weighs tasks."""
        chosen = self._rng.integers(0, len(matrix), (self.count, len(matrix)))
        return np.asarray(np.take_along_axis(weights @ matrix.T, chosen, axis=1))


def _drawn_together(
    ours: Sequence[Matrix], theirs: Sequence[Matrix], drawn: _Draws
) -> list[tuple[Matrix, Matrix]]:
    pairs = []
    for our_suite, their_suite in zip(ours, theirs, strict=True):
        weights = drawn.tasks(our_suite)
        pairs.append((drawn.runs(our_suite, weights), drawn.runs(their_suite, weights)))
    return pairs


def _joined(parts: Sequence[Matrix]) -> Matrix:
    return np.concatenate(parts, axis=-1)


def _estimate(value: float, cloud: Matrix, suites: Sequence[Matrix]) -> Estimate:
    tail = _expanded_tail(suites)
    low, high = np.quantile(cloud, [tail, 1 - tail])
    # A statistic of few runs may lie outside its own cloud's percentiles only by rounding.
    return Estimate(value, min(float(low), value), max(float(high), value), min(map(len, suites)))


def _expanded_tail(suites: Sequence[Matrix]) -> float:
    """Returns the tail whose normal quantile is sqrt(n / (n - 1)) times that of Student's t."""
    from scipy.special import ndtr, stdtrit

    runs = min(map(len, suites))
    units = suites[0].shape[1] if runs == 1 else runs  # with one run, tasks are all there is
    if units < 2:
        raise ConfigError("one score has no interval; pass at least 2 runs, or success by task")
    freedom = units - 1 if runs == 1 else sum(len(matrix) - 1 for matrix in suites)
    wide = math.sqrt(units / (units - 1)) * stdtrit(freedom, (1 + CONFIDENCE) / 2)
    return float(ndtr(-wide))


# --- reading scores ----------------------------------------------------------------------------


def _suites(scores: Scores) -> list[Matrix]:
    """Returns a [run, task] matrix for each suite. A vector becomes a suite with one task."""
    by_name = scores if isinstance(scores, Mapping) else {"": scores}
    if not by_name:
        raise ConfigError("there are no scores to summarise: pass the scores of at least one suite")
    return [_matrix(by_name[name], name) for name in sorted(by_name)]


def _matrix(values: ArrayLike, name: str) -> Matrix:
    matrix = np.asarray(values, dtype=float)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        where = f" of {name}" if name else ""
        raise ConfigError(
            f"the scores{where} have the shape {matrix.shape}; pass finite numbers, one for each "
            "run or for each (run, task)"
        )
    return matrix


def _both(a: Scores, b: Scores) -> tuple[list[Matrix], list[Matrix]]:
    names = [sorted(scores) if isinstance(scores, Mapping) else [""] for scores in (a, b)]
    ours, theirs = _suites(a), _suites(b)
    tasks = [[matrix.shape[1] for matrix in side] for side in (ours, theirs)]
    if names[0] != names[1] or tasks[0] != tasks[1]:
        raise ConfigError(
            f"the two sides of the comparison differ: {names[0]} has {tasks[0]} tasks and "
            f"{names[1]} has {tasks[1]}; pass both with the same suites and tasks"
        )
    return ours, theirs


def _scored(*sides: Matrix) -> tuple[Matrix, ...]:
    return tuple(side.mean(axis=1) for side in sides)


def _flat(suites: Sequence[Matrix]) -> Matrix:
    return np.concatenate([matrix.mean(axis=1) for matrix in suites])
