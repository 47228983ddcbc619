"""The AUC of two samples, with its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Auc(NamedTuple):
    """The AUC of two samples, P(x > y) + P(x = y) / 2, and its standard error."""

    share: float
    error: float


def auc_of(above: Sequence[float], below: Sequence[float]) -> Auc:
    """Returns the AUC for x in `above` and y in `below`, neither of them empty.

    The error is DeLong's (1988). It is at least 1 / (number of pairs), since perfectly ordered
    samples show no error.
    """
    lower, higher = _doubled_ranks(above, below), _doubled_ranks(below, above)
    pairs = lower.size * higher.size
    variance = sum(
        float(((part - part.mean()) ** 2).sum()) / max(1, part.size - 1) / part.size
        for part in (lower / (2 * higher.size), higher / (2 * lower.size))
    )
    return Auc(int(lower.sum()) / (2 * pairs), max(math.sqrt(variance), 1 / pairs))


def _doubled_ranks(values: Sequence[float], others: Sequence[float]) -> NDArray[np.int64]:
    """Returns for each value twice the number of others that lie below it. Ties count once."""
    ordered = np.sort(others)
    return np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
