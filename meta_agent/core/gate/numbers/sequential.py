"""A test of one paired effect that may stop at any moment, by betting against the null.

A difference is one training seed's mean. The wealth of the bets is a mixture of two e-processes:

* *deviations*: the likelihood ratio of the t-statistic at a standardised effect against none. Seeds
  are few and their differences small, so they are taken as normal with unknown spread. The ratio is
  a martingale whatever the spread (Perez-Ortiz, Lardy, de Heide and Gruenwald, Annals of Statistics
  52, 2024), and stays one under averaging over effects.
* *signs*: 2 to the number of pairs if all of them are above the null, else 0. It needs no normal
  differences: if the median is the null, every pair is above it with probability at most 1/2. It
  proves what a t-test cannot see: pairs that are all better, by amounts that differ widely.

So the wealth ever reaches 1 / alpha with probability at most alpha if there is no effect (Ville
1939).

Promises: the level holds whenever one looks and however one stops, for data in an order that does
not depend on the results. One may also go on after having stopped. The bounds are the inverted
test, so interval and verdict cannot contradict each other.

Does not cover: error control over several runs (each gets its alpha); differences between the task
set and the world, which training seeds on one task set cannot show; runs that collapse, which
neither process expects (`_course.Collapse`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

STANDARD_EFFECTS: Final = (1.0, 2.0, 4.0, 8.0)
"""Standardised effects (mean over between-seed deviation) that the bets on deviations are on.

Simulated on comparisons without an effect: with 8 among them, a gain of 30 points takes three or
four pairs and not five. 16 gains nothing at the levels in use; 0.5 costs as much as it brings.
"""
WEIGHTS: Final = (2 / 7, 2 / 7, 2 / 7, 1 / 7)
"""Shares of the bets on each effect. Gains of 8 deviations are rare."""
SIGNS: Final = 0.1
"""The share that is bet on all differences being positive (`docs/log/gate.md`).

Eight pairs that are all better reach 1 / 0.05 = 20 by it alone. A larger share costs gains of which
one pair in five falls below the start.
"""
_POINTS: Final = 2048


def wealth_of(values: Sequence[float] | Vector) -> float:
    """Returns the wealth: an e-value, the evidence that the mean of `values` is above zero."""
    data = np.asarray(values, dtype=float)
    if data.size == 0:
        return 1.0
    squares = float(data @ data)
    ratio = float(data.sum()) / math.sqrt(squares) if squares > 0 else 0.0
    on_signs = 2.0**data.size if (data > 0).all() else 0.0
    on_deviations = math.exp(min(_log_mixture(data.size, ratio), 700.0))
    return (1 - SIGNS) * on_deviations + SIGNS * on_signs


def half_width(units: int, error: float, worst: float, level: float) -> float:
    """Returns the distance from the mean of values to its one-sided confidence bound.

    Args:
        units: the number of values.
        error: the standard error of the values' mean.
        worst: the distance from the mean to the farthest value on the side of the bound.
        level: the one-sided error of the bound.
    """
    by_deviations = _scaled(reach(units, level), error)
    if units < 2:
        return by_deviations
    needed = (1 / level - SIGNS * 2.0**units) / (1 - SIGNS)
    helped = _scaled(_t_reach(units, 1 / needed), error) if needed > 0 else 0.0
    return min(by_deviations, max(worst, helped))


def reach(units: int, level: float) -> float:
    """Returns how many standard errors a mean of `units` values is from its one-sided bound.

    `level` is the bound's error. The bet on signs is left out; it could only narrow the bound.
    Returns infinity if so few values cannot rule out anything.
    """
    return _t_reach(units, level * (1 - SIGNS))


def _scaled(reach: float, error: float) -> float:
    """Returns the product, and infinity if nothing can be ruled out even without an error."""
    return reach if math.isinf(reach) else reach * error


@lru_cache(maxsize=4096)
def _t_reach(units: int, level: float) -> float:
    bar, most = -math.log(level), math.sqrt(units) * (1 - 1e-12)
    if units < 2 or _log_mixture(units, most) < bar:
        return math.inf
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_mixture(units, middle) < bar else (low, middle)
    return high * math.sqrt((units - 1) / (units - high * high))


def _log_mixture(units: int, ratio: float) -> float:
    logs = [log_likelihood_ratio(units, ratio, effect) for effect in STANDARD_EFFECTS]
    peak, bets = max(logs), zip(WEIGHTS, logs, strict=True)
    return peak + math.log(math.fsum(weight * math.exp(log - peak) for weight, log in bets))


def log_likelihood_ratio(units: int, ratio: float, effect: float) -> float:
    """Returns the log likelihood ratio of a mean of `effect` deviations to a mean of zero.

    It compares the densities of the t-statistic of `units` values x, of which `ratio` is
    sum(x) / sqrt(sum(x^2)).
    """
    # With W chi-distributed with n degrees of freedom and a = ratio * effect, the likelihood ratio
    # is exp(-n effect^2 / 2) E[exp(a W)]: the scale integrates out.
    tilt = effect * ratio
    w, log_density = _chi(units, math.ceil(abs(tilt)))
    logs = log_density + tilt * w
    peak = float(logs.max())
    total = float(np.exp(logs - peak).sum()) * float(w[1] - w[0])
    return peak + math.log(total) - units * effect * effect / 2


@lru_cache(maxsize=512)
def _chi(df: int, tilt: int) -> tuple[Vector, Vector]:
    """Returns a grid over the mass of W with and without the tilt, and W's log density on it."""
    high = math.sqrt(df) + tilt + 12.0
    w: Vector = np.linspace(0.5, _POINTS - 0.5, _POINTS, dtype=np.float64) * (high / _POINTS)
    norm = math.lgamma(df / 2) + (df / 2 - 1) * math.log(2)
    density: Vector = (df - 1) * np.log(w) - w * w / 2 - norm
    return w, density
