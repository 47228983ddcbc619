"""A test of one paired effect that may stop at any moment, by betting against the null.

`judge` decides pairs of training runs by it (`t_reach`). A difference is one training seed's mean.
Seeds are few and their differences small, so betting on bounded values would never get anywhere;
they are taken as normal with unknown spread. The likelihood ratio of the t-statistic at a
standardised effect against none is a martingale whatever the spread (Perez-Ortiz, Lardy, de Heide
and Gruenwald, Annals of Statistics 52, 2024), and stays one under averaging over effects. So it
ever reaches 1 / alpha with probability at most alpha where there is no effect (Ville 1939).

Promises: the level holds whenever one looks and however one stops, for data in an order that does
not depend on the results; one may also go on after having stopped. The bounds are the test itself,
turned round, so interval and verdict cannot contradict each other.

Does not cover: error control over several candidates (`ErrorBudget` gives each its alpha), and
differences between the task set and the world, which training seeds on one task set cannot show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


STANDARD_EFFECTS = (1.0, 2.0, 4.0, 8.0)
"""Standardised effects (mean over between-seed deviation) that share the first wealth equally.

Simulated on A/A runs: with 8 among them a gain of 30 points takes three or four pairs instead of
five; 16 gains nothing more at the levels in use, and 0.5 costs as much as it brings.
"""
_POINTS = 2048


def t_wealth(values: Sequence[float] | Vector) -> float:
    """The e-value of "the mean of `values` is above zero"."""
    total = math.fsum(t_likelihood_ratio(values, effect) for effect in STANDARD_EFFECTS)
    return total / len(STANDARD_EFFECTS)


def t_likelihood_ratio(values: Sequence[float] | Vector, effect: float) -> float:
    """Density of the t-statistic of `values` at mean/deviation = `effect`, over that at 0.

    With W chi-distributed with n degrees of freedom and a = sum(x) / sqrt(sum(x^2)) * effect, it
    is exp(-n effect^2 / 2) E[exp(a W)]: the scale integrates out. 1 for n = 0.
    """
    data = np.asarray(values, dtype=float)
    squares = float(data @ data)
    if data.size == 0:
        return 1.0
    ratio = float(data.sum()) / math.sqrt(squares) if squares > 0 else 0.0
    return math.exp(min(_log_ratio(data.size, ratio, effect), 700.0))


def _log_ratio(units: int, ratio: float, effect: float) -> float:
    """Log of the above by sum(x) / sqrt(sum(x^2))."""
    tilt = effect * ratio
    w, log_density = _chi(units, math.ceil(abs(tilt)))
    logs = log_density + tilt * w
    peak = float(logs.max())
    total = float(np.exp(logs - peak).sum()) * float(w[1] - w[0])
    return peak + math.log(total) - units * effect * effect / 2


@lru_cache(maxsize=512)
def _chi(df: int, tilt: int) -> tuple[Vector, Vector]:
    """A grid that holds the mass of W with and without the tilt, and W's log density on it."""
    high = math.sqrt(df) + tilt + 12.0
    w: Vector = np.linspace(0.5, _POINTS - 0.5, _POINTS, dtype=np.float64) * (high / _POINTS)
    norm = math.lgamma(df / 2) + (df / 2 - 1) * math.log(2)
    density: Vector = (df - 1) * np.log(w) - w * w / 2 - norm
    return w, density


@lru_cache(maxsize=4096)
def t_reach(units: int, level: float) -> float:
    """How many standard errors away from a mean of `units` values is ruled out, at any time.

    It stands where Student's quantile stands in an interval for a fixed number of values. Infinite
    where so few values cannot rule anything out at this level, however equal they are.
    """
    bar, most = -math.log(level), math.sqrt(units) * (1 - 1e-12)
    if units < 2 or _log_mixture(units, most) < bar:
        return math.inf
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        below = _log_mixture(units, middle) < bar
        low, high = (middle, high) if below else (low, middle)
    return high * math.sqrt((units - 1) / (units - high * high))


def _log_mixture(units: int, ratio: float) -> float:
    logs = [_log_ratio(units, ratio, effect) for effect in STANDARD_EFFECTS]
    peak = max(logs)
    return peak + math.log(math.fsum(math.exp(log - peak) for log in logs) / len(logs))
