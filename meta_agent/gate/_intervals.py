"""Small interval arithmetic shared by the detectors: Wilson scores and two-proportion tests."""

from __future__ import annotations

import math
from typing import NamedTuple

Z_95 = 1.959963984540054


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


def wilson(hits: int, total: int, z: float = Z_95) -> Interval:
    """The Wilson score interval of a share (Wilson 1927); [0, 1] where nothing was seen."""
    if total == 0:
        return Interval(0.0, 1.0)
    share, zz = hits / total, z * z
    centre = (share + zz / (2 * total)) / (1 + zz / total)
    half = z * math.sqrt(share * (1 - share) / total + zz / (4 * total * total)) / (1 + zz / total)
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == total else min(1.0, centre + half)
    return Interval(low, high)


def two_proportion_p(hits_a: int, total_a: int, hits_b: int, total_b: int) -> float:
    """Two-sided p of the pooled two-proportion z-test; 1.0 where it cannot be computed."""
    if not total_a or not total_b:
        return 1.0
    pooled = (hits_a + hits_b) / (total_a + total_b)
    variance = pooled * (1 - pooled) * (1 / total_a + 1 / total_b)
    if variance <= 0:
        return 1.0
    z = (hits_a / total_a - hits_b / total_b) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))
