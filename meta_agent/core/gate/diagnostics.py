"""The rule for diagnostics: does a metric tell good past versions from bad ones?

A diagnostic is a metric that a candidate adds. It does not change clean success, so clean success
cannot judge it. It is admitted if it separates the versions that its author saw, and also versions
that were held out. It may raise few false alarms on good versions, with a bound. Later it retires
if it no longer separates newer versions (`still_discriminates`).

Not covered: which past version counts as bad; the caller takes that from recorded verdicts.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from meta_agent.core.gate.numbers._intervals import wilson
from meta_agent.core.gate.validity._reward import mann_whitney_share, share_error
from meta_agent.core.protocols import JSON, Verdict, VerdictKind

ALPHA = 0.05
MIN_VERSIONS = 3
MIN_DISCRIMINATION = 0.80
MAX_FALSE_ALARMS = 0.20
MAX_FALSE_ALARM_BOUND = 0.30
"""The limit of the upper 90 % bound on false alarms over all good versions.

No alarm in four good versions passes; one in six does not.
"""
ONE_SIDED_90 = 1.2815515655446004
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
    alpha: float = ALPHA,
) -> Verdict:
    """Judges a diagnostic: a metric that shall tell bad versions of the harness from good ones.

    Each sequence holds one metric value per version. The metric's author knew the first two sets
    of versions, not the `heldout` ones. At `threshold` or beyond the metric raises an alarm.
    Returns PROMOTE if it separates good from bad in both sets with few false alarms, REJECT with
    reasons if not, or INCONCLUSIVE if there are too few versions. `alpha` is the rank test's level.
    """
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
    numbers: dict[str, JSON] = {n: r._asdict() for n, r in readings.items()}
    good = [value for side in sets.values() for value in side[0]]
    high = _alarms_high(good, sign * threshold)
    numbers["false_alarms_high"] = high
    if lacks := _lacks(readings, alpha):
        return _verdict(VerdictKind.REJECT, lacks, inputs, numbers)
    if high > MAX_FALSE_ALARM_BOUND:
        reason = f"false alarms may be up to {high:.0%} of good versions: {len(good)} are too few"
        return _verdict(VerdictKind.INCONCLUSIVE, (reason,), inputs, numbers)
    reasons = (f"separates past versions with AUC {readings['past'].share:.2f}",)
    return _verdict(VerdictKind.PROMOTE, reasons, inputs, numbers)


class Standing(NamedTuple):
    """Whether an admitted diagnostic still tells good from bad among later harness versions.

    `stays` is None if such versions are too few. `share` is the metric's AUC, `share_high` its
    upper bound. `good` and `bad` count the versions.
    """

    stays: bool | None
    reason: str
    share: float | None = None
    share_high: float | None = None
    good: int = 0
    bad: int = 0

    def to_json(self) -> dict[str, JSON]:
        """Returns the fields as a JSON object, in which `stays` is called `kept`."""
        fields = self._asdict()
        return {"kept": fields.pop("stays"), **fields}


def still_discriminates(
    good: Sequence[float], bad: Sequence[float], *, threshold: float, higher_is_bad: bool
) -> Standing:
    """Returns whether an admitted diagnostic still tells later good versions from bad ones.

    `good` and `bad` hold the metric's value for each version; at `threshold` it raises an alarm.
    The diagnostic fails if a one-sided test at 10 % shows an AUC that is too low or a share of
    false alarms that is too high.
    """
    if min(len(good), len(bad)) < MIN_VERSIONS:
        reason = f"{len(good)} good and {len(bad)} bad versions since: too few to say"
        return Standing(None, reason, good=len(good), bad=len(bad))
    sign = 1.0 if higher_is_bad else -1.0
    fine, poor = [sign * value for value in good], [sign * value for value in bad]
    share = mann_whitney_share(poor, fine)
    high = min(1.0, share + ONE_SIDED_90 * share_error(poor, fine))
    alarms = sum(value >= sign * threshold for value in fine)
    low = wilson(alarms, len(fine), ONE_SIDED_90).low
    stays, reason = True, f"AUC {share:.2f} on {len(good) + len(bad)} versions since"
    if high < MIN_DISCRIMINATION:
        stays, reason = False, f"{reason} (at most {high:.2f}), needs {MIN_DISCRIMINATION}"
    elif low > MAX_FALSE_ALARMS:
        stays, reason = False, f"alarms on {alarms} of {len(fine)} good versions since"
    return Standing(stays, reason, share, high, len(good), len(bad))


def _alarms_high(good: Sequence[float], threshold: float) -> float:
    alarms = sum(value >= threshold for value in good)
    return wilson(alarms, len(good), ONE_SIDED_90).high


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
    """Returns the one-sided p-value of a rank-sum test that `above` is larger than `below`.

    It is exact for small samples, else a normal approximation. Both samples must hold values.
    """
    pooled, k = [*above, *below], len(above)
    if math.comb(len(pooled), k) > _EXACT_UP_TO:
        spread = math.sqrt((len(pooled) + 1) / (12 * k * len(below)))
        share = mann_whitney_share(above, below)
        return 0.5 * math.erfc((share - 0.5) / spread / math.sqrt(2))
    ordered = sorted(pooled)
    ranks = [bisect_left(ordered, v) + bisect_right(ordered, v) for v in pooled]  # twice, less 1
    observed, sums = sum(ranks[:k]), [sum(chosen) for chosen in combinations(ranks, k)]
    return sum(rank_sum >= observed for rank_sum in sums) / len(sums)


def _verdict(kind: VerdictKind, reasons: tuple[str, ...], inputs: JSON, readings: JSON) -> Verdict:
    evidence = {"judge": "diagnostics", "inputs": inputs, "numbers": readings}
    return Verdict(kind, reasons, None, evidence=evidence)
