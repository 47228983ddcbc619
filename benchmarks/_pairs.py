"""What paired rounds say of a ratio."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scipy import stats


def ratio(above: Sequence[float], below: Sequence[float]) -> dict[str, float | list[float]]:
    """Of the geometric means, with its 95 % interval: t on the logarithms of the pairs."""
    logs = [math.log(a / b) for a, b in zip(above, below, strict=True)]
    mean = statistics.fmean(logs)
    half = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs) if len(logs) > 1 else math.inf
    return {"ratio": math.exp(mean), "interval": [math.exp(mean - half), math.exp(mean + half)]}
