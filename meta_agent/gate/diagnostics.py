"""The rule for diagnostics: does a metric separate good from bad past versions?

A diagnostic does not change clean success, so clean success cannot judge it. It is admitted when
it discriminates on the versions it was written from, again on versions held out from its
author, and raises few false alarms on good ones. It retires by the same test when it stops.

Not covered: which past version counts as bad; the caller reads that off recorded verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from meta_agent.gate._reward import mann_whitney_share
from meta_agent.protocols import JSON, Verdict, VerdictKind

MIN_VERSIONS = 3
MIN_DISCRIMINATION = 0.80
MAX_FALSE_ALARMS = 0.20
_EXACT_UP_TO = 5_000


class _Reading(NamedTuple):
    """How well one set of versions is separated."""

    share: float  # probability that a bad version reads worse than a good one
    p: float
    false_alarms: float


def judge_diagnostics(
    values_good: Sequence[float],
    values_bad: Sequence[float],
    *,
    heldout_good: Sequence[float],
    heldout_bad: Sequence[float],
    threshold: float,
    higher_is_bad: bool,
    alpha: float = 0.05,
) -> Verdict:
    """Admits a diagnostic, or says what it lacks. The direction and threshold are the author's."""
    sign = 1.0 if higher_is_bad else -1.0
    sets = {
        "past": ([sign * v for v in values_good], [sign * v for v in values_bad]),
        "heldout": ([sign * v for v in heldout_good], [sign * v for v in heldout_bad]),
    }
    short = [name for name, (good, bad) in sets.items() if _too_few(name, good, bad)]
    inputs = {
        "values_good": list(values_good),
        "values_bad": list(values_bad),
        "heldout_good": list(heldout_good),
        "heldout_bad": list(heldout_bad),
        "threshold": threshold,
        "higher_is_bad": higher_is_bad,
        "alpha": alpha,
    }
    if short:
        reasons = tuple(f"too few {name} versions to judge by" for name in short)
        return _verdict(VerdictKind.INCONCLUSIVE, reasons, inputs, {})
    readings = {n: _read(good, bad, sign * threshold) for n, (good, bad) in sets.items()}
    lacks = _lacks(readings, alpha)
    kind = VerdictKind.REJECT if lacks else VerdictKind.PROMOTE
    reasons = lacks or (f"separates past versions with AUC {readings['past'].share:.2f}",)
    return _verdict(kind, reasons, inputs, {n: r._asdict() for n, r in readings.items()})


def _too_few(name: str, good: Sequence[float], bad: Sequence[float]) -> bool:
    needed = MIN_VERSIONS if name == "past" else 1
    return min(len(good), len(bad)) < needed


def _read(good: Sequence[float], bad: Sequence[float], threshold: float) -> _Reading:
    alarms = sum(value >= threshold for value in good) / len(good)
    return _Reading(mann_whitney_share(bad, good), rank_sum_p(bad, good), alarms)


def _lacks(readings: dict[str, _Reading], alpha: float) -> tuple[str, ...]:
    lacks = []
    for name, reading in readings.items():
        if reading.share < MIN_DISCRIMINATION:
            lacks.append(f"AUC {reading.share:.2f} on {name} versions, needs {MIN_DISCRIMINATION}")
        if reading.false_alarms > MAX_FALSE_ALARMS:
            lacks.append(f"alarms on {reading.false_alarms:.0%} of good {name} versions")
    if readings["past"].p > alpha:
        lacks.append(f"permutation p {readings['past'].p:.3g} is above {alpha}")
    return tuple(lacks)


def rank_sum_p(above: Sequence[float], below: Sequence[float]) -> float:
    """One-sided permutation p of the rank-sum statistic: exact while small, else normal."""
    pooled, k = [*above, *below], len(above)
    seen = mann_whitney_share(above, below)
    if math.comb(len(pooled), k) > _EXACT_UP_TO:
        spread = math.sqrt((len(pooled) + 1) / (12 * k * len(below)))
        return 0.5 * math.erfc((seen - 0.5) / spread / math.sqrt(2))
    hits = total = 0
    for chosen in combinations(range(len(pooled)), k):
        picked = set(chosen)
        rest = [v for i, v in enumerate(pooled) if i not in picked]
        hits += mann_whitney_share([pooled[i] for i in chosen], rest) >= seen - 1e-12
        total += 1
    return hits / total


def _verdict(kind: VerdictKind, reasons: tuple[str, ...], inputs: JSON, readings: JSON) -> Verdict:
    evidence = {"judge": "diagnostics", "inputs": inputs, "numbers": readings}
    return Verdict(kind, reasons, None, evidence=evidence)
