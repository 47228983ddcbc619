"""Tests of one paired effect that may stop at any moment, by betting against the null.

Two units of evidence, two tests:

* *Pairs of attempts on a frozen policy.* A difference is clean success of the candidate minus that
  of the baseline on one task, in [-1, 1]; tasks come in random order. Wealth starts at 1 and is
  multiplied by 1 + bet * (d - min_effect). Where the mean difference is at most `min_effect` that
  is a supermartingale, so it ever reaches 1 / alpha with probability at most alpha (Ville 1939;
  Waudby-Smith and Ramdas, JRSS-B 86, 2024). The bet is the one that grows fastest at the target
  effect, `target / E[d^2]`; for differences of -1, 0 and 1 the test is then Wald's (1945) on the
  discordant pairs. A second wealth bets against "the mean is at least the target" and gives up.
* *Pairs of training runs.* A difference is one training seed's mean. Seeds are few and their
  differences small, so betting on bounded values would never get anywhere; they are taken as
  normal with unknown spread. The likelihood ratio of the t-statistic at a standardised effect
  against none is a martingale whatever the spread (Perez-Ortiz, Lardy, de Heide and Gruenwald,
  Annals of Statistics 52, 2024), and stays one under averaging over effects.

Promises: the level holds whenever one looks and however one stops, for data in an order that does
not depend on the results. `max_units` only ends what would cost more than a fixed-size test.

Does not cover: further attempts at a task that was seen already (given the first attempt, its mean
is not what the null says: average a task's attempts into one difference instead), error control
over several candidates (`ErrorBudget` gives each its alpha), and differences between the task set
and the world, which training seeds on one task set cannot show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meta_agent.errors import ConfigError

Vector = NDArray[np.float64]


class Stop(StrEnum):
    """Where a sequential test stands."""

    PROVEN = "proven"
    GIVEN_UP = "given up"
    EXHAUSTED = "exhausted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Design:
    """What is declared before the first pair. Effects are shares, not points."""

    alpha: float
    """Chance of ever proving an effect that is at most `min_effect`."""
    target: float
    """The effect that the test is tuned to find quickly."""
    min_effect: float = 0.0
    miss: float = 0.2
    """Chance of ever giving up an effect that is at least `target`."""
    second_moment: float = 0.3
    """E[d^2] expected beforehand: for single attempts the share of discordant pairs."""
    prior_pairs: int = 20
    """How many pairs that expectation is worth against what is seen."""
    max_units: int | None = None

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 1 and 0 < self.miss < 1):
            raise ConfigError(f"alpha={self.alpha}, miss={self.miss}: need 0 < value < 1")
        if not 0 <= self.min_effect < self.target < 1:
            raise ConfigError(
                f"min_effect={self.min_effect}, target={self.target}: "
                "need 0 <= min_effect < target < 1"
            )
        if not 0 < self.second_moment <= 1 or self.prior_pairs < 1:
            raise ConfigError(
                f"second_moment={self.second_moment}, prior_pairs={self.prior_pairs}: need a share "
                "above 0 and at least 1 pair"
            )


class Reading(NamedTuple):
    """A sequential test after some units. Wealths are e-values."""

    state: Stop
    units: int
    wealth: float
    wealth_against: float
    mean: float


# --- pairs of attempts --------------------------------------------------------------------------


class BettingTest:
    """Sequential test of a mean of differences in [-1, 1]."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self._log_for = 0.0
        self._log_against = 0.0
        self._squares = design.second_moment * design.prior_pairs
        self._sum = 0.0
        self._units = 0
        self._state = Stop.OPEN

    def update(self, differences: Iterable[float]) -> Reading:
        """Takes differences in their order until one decides; the rest is not looked at."""
        for difference in differences:
            if self._state is not Stop.OPEN:
                break
            self._take(float(difference))
        return self.reading

    @property
    def reading(self) -> Reading:
        mean = self._sum / self._units if self._units else 0.0
        wealth, against = math.exp(self._log_for), math.exp(self._log_against)
        return Reading(self._state, self._units, wealth, against, mean)

    def _take(self, d: float) -> None:
        if not -1 <= d <= 1:
            raise ConfigError(f"a paired difference of clean success is in [-1, 1], not {d}")
        low, high = self.design.min_effect, self.design.target
        up, down = self._bets()
        self._log_for += math.log1p(up * (d - low))
        self._log_against += math.log1p(-down * (d - high))
        self._squares += d * d
        self._sum += d
        self._units += 1
        self._state = self._decide()

    def _bets(self) -> tuple[float, float]:
        """Set before the pair is seen; bounded so that no single pair can ruin the wealth."""
        low, high = self.design.min_effect, self.design.target
        second = self._squares / (self.design.prior_pairs + self._units)
        spread = max(second - low * high, high - low)
        bet = (high - low) / spread
        return min(bet, 0.9 / (1 + low)), min(bet, 0.9 / (1 - high))

    def _decide(self) -> Stop:
        if self._log_for >= -math.log(self.design.alpha):
            return Stop.PROVEN
        if self._log_against >= -math.log(self.design.miss):
            return Stop.GIVEN_UP
        limit = self.design.max_units
        return Stop.EXHAUSTED if limit is not None and self._units >= limit else Stop.OPEN


class Interval(NamedTuple):
    """A confidence sequence at one moment: it holds at all moments at once."""

    low: float
    high: float


def confidence_sequence(
    differences: Sequence[float], *, alpha: float, second_moment: float = 0.3, grid: int = 401
) -> Interval:
    """Means in [-1, 1] against which no bettor has reached 2 / alpha, on either side, by now.

    Each side bets by the empirical variance so far (predictable plug-in of Waudby-Smith and
    Ramdas, 2024, sec. 3.2), so the interval narrows like one of fixed size, a factor wider.
    """
    data = np.asarray(differences, dtype=float)
    means = np.linspace(-1, 1, grid)
    bets = _plug_in_bets(data, alpha, second_moment)
    down = np.minimum(bets[:, None], 0.5 / (1 - means + 1e-12))
    up = np.minimum(bets[:, None], 0.5 / (1 + means + 1e-12))
    gaps = data[:, None] - means
    above = np.maximum.accumulate(np.cumsum(np.log1p(up * gaps), axis=0))
    below = np.maximum.accumulate(np.cumsum(np.log1p(-down * gaps), axis=0))
    if not data.size:
        return Interval(-1.0, 1.0)
    bar = math.log(2 / alpha)
    left = means[(above[-1] < bar) & (below[-1] < bar)]
    if not left.size:  # only possible where the level's own error has struck
        return Interval(float(data.mean()), float(data.mean()))
    return Interval(float(left[0]), float(left[-1]))


def _plug_in_bets(data: Vector, alpha: float, second_moment: float) -> Vector:
    count = np.arange(1, data.size + 1)
    before = np.concatenate([[0.0], np.cumsum(data * data)[:-1]])
    variance = (second_moment + before) / count
    return np.sqrt(2 * math.log(2 / alpha) / (variance * count * np.log1p(count)))


# --- pairs of training runs ---------------------------------------------------------------------

STANDARD_EFFECTS = (0.5, 1.0, 2.0, 4.0)
"""Standardised effects (mean over between-seed deviation) that share the first wealth equally."""


class SequentialT:
    """Sequential t-test of a mean of per-seed differences above `min_effect`."""

    def __init__(self, design: Design, effects: Sequence[float] = STANDARD_EFFECTS) -> None:
        if not effects or min(effects) <= 0:
            raise ConfigError(f"standardised effects {tuple(effects)}: need values above 0")
        self.design = design
        self._effects = tuple(effects)
        self._values: list[float] = []
        self._state = Stop.OPEN
        self._reading = Reading(Stop.OPEN, 0, 1.0, 1.0, 0.0)

    def update(self, differences: Iterable[float]) -> Reading:
        """Takes per-seed differences in their order until one decides."""
        for difference in differences:
            if self._state is not Stop.OPEN:
                break
            self._values.append(float(difference))
            self._reading = self._read()
            self._state = self._reading.state
        return self._reading

    @property
    def reading(self) -> Reading:
        return self._reading

    def _read(self) -> Reading:
        values = np.asarray(self._values)
        wealth = self._wealth(values - self.design.min_effect)
        against = self._wealth(self.design.target - values)
        state = self._decide(wealth, against, len(values))
        return Reading(state, len(values), wealth, against, float(values.mean()))

    def _wealth(self, values: Vector) -> float:
        ratios = [t_likelihood_ratio(values, effect) for effect in self._effects]
        return math.fsum(ratios) / len(ratios)

    def _decide(self, wealth: float, against: float, units: int) -> Stop:
        if wealth >= 1 / self.design.alpha:
            return Stop.PROVEN
        if against >= 1 / self.design.miss:
            return Stop.GIVEN_UP
        limit = self.design.max_units
        return Stop.EXHAUSTED if limit is not None and units >= limit else Stop.OPEN


def t_likelihood_ratio(values: Sequence[float] | Vector, effect: float) -> float:
    """Density of the t-statistic of `values` at mean/deviation = `effect`, over that at 0.

    With W chi-distributed with n degrees of freedom and a = sum(x) / sqrt(sum(x^2)) * effect, it
    is exp(-n effect^2 / 2) E[exp(a W)]: the scale integrates out. 1 for n = 0.
    """
    data = np.asarray(values, dtype=float)
    n, squares = data.size, float(data @ data)
    if n == 0:
        return 1.0
    tilt = effect * float(data.sum()) / math.sqrt(squares) if squares > 0 else 0.0
    w, log_density = _chi(n, tilt)
    peak = float((log_density + tilt * w).max())
    top = float(np.exp(log_density + tilt * w - peak).sum())
    base_peak = float(log_density.max())
    bottom = float(np.exp(log_density - base_peak).sum())
    log_ratio = peak + math.log(top) - base_peak - math.log(bottom) - n * effect * effect / 2
    return math.exp(min(log_ratio, 700.0))


def _chi(n: int, tilt: float) -> tuple[Vector, Vector]:
    """A grid that holds the mass of W with and without the tilt, and W's log density on it."""
    high = math.sqrt(n) + abs(tilt) + 12.0
    w = np.linspace(high / 20_000, high, 20_000)
    return w, (n - 1) * np.log(w) - w * w / 2
