"""What a promotion does to its own estimate.

Only estimates above a bar are promoted, so those that are were lucky on average: where a gain is
found one time in four, what is reported is nearly twice as large as what is there. The estimate
beside the raw one is the most likely gain *given that the bar was passed* (Zhong and Prentice,
Biostatistics 9, 2008), taking the estimate as normal, and no less than the promotion claims. Far
above the bar both are the same.

Not covered: what stopping early adds, and looking at many before one of them is claimed.
"""

from __future__ import annotations

import math
from typing import Final

_STEPS: Final = 60


def given_promotion(estimate: float, error: float, bar: float, least: float = 0.0) -> float:
    """The gain behind an estimate with this standard error that had to be above `bar`."""
    if error <= 0 or estimate <= bar:
        return max(least, estimate)
    low, high = estimate - 20 * error, estimate
    for _ in range(_STEPS):
        middle = (low + high) / 2
        lifted = middle + error * _hazard((bar - middle) / error)
        low, high = (middle, high) if lifted < estimate else (low, middle)
    return max(least, (low + high) / 2)


def _hazard(at: float) -> float:
    """By how much a normal variable that is above `at` is larger on average."""
    from scipy.special import log_ndtr

    return math.exp(-at * at / 2 - 0.5 * math.log(2 * math.pi) - float(log_ndtr(-at)))
