"""Detects length gaming: attempts change in length because the reward pays for length.

Three things have to come together. Attempts got longer or shorter, beyond chance. Among attempts of
*equal outcome* the reward pays for just that, and enough to matter beside what success earns. Clean
success did not rise. Any one alone is ordinary: a better policy may test more, and a careful reward
may pay a little for haste.

Not covered: length in characters. Outcome rows hold only turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pvariance
from typing import NamedTuple

from meta_agent.core.gate._records import Arm, Finding, OutcomeRow, Severity
from meta_agent.core.gate.validity._limits import ValidityLimits
from meta_agent.core.gate.validity._reward import clean_share, fell, scored

MIN_ROWS = 20
SHIFT_SD = 0.5
"""How far mean turns must have moved, in the baseline's standard deviations."""
PAID_CORRELATION = 0.5
"""The least correlation of reward and turns within attempts of equal outcome."""
EARNED_SHARE = 0.1
"""The least that the change of length earned, as a share of what success earns.

Less is ignored, since unfinished attempts are long: a little for a submission is no pay for haste.
"""


def length_gaming(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Returns a finding if attempts changed in length because the candidate's reward pays for it.

    Returns [] if they did not, if clean success rose, or if a side has too few attempts.
    """
    before, after = scored(baseline), scored(candidate)
    if min(len(before), len(after)) < MIN_ROWS:
        return []
    shift, certain = _shift(before, after, limits)
    paid = _within(after)
    earned, gain = paid.slope * shift, clean_share(after) - clean_share(before)
    trifle = earned <= EARNED_SHARE * max(0.0, _worth(after))
    if not certain or earned <= 0 or trifle or gain > 0:
        return []
    if abs(paid.correlation) < PAID_CORRELATION:
        return []
    way = "longer" if shift > 0 else "shorter"
    turns = [fmean(row.turns for row in rows) for rows in (before, after)]
    message = (
        f"attempts became {way} ({turns[0]:.1f} -> {turns[1]:.1f} turns), which is what the reward "
        f"pays for among attempts of equal outcome (r = {paid.correlation:+.2f}, {earned:+.2f} in "
        f"all), while clean success moved {gain:+.1%}"
    )
    lines = _extremes(after, longest=shift > 0)
    numbers = {"shift": shift, "correlation": paid.correlation, "earned": earned, "clean": gain}
    same = baseline.reward_hash and baseline.reward_hash == candidate.reward_hash
    severity: Severity = "veto" if fell(before, after) else "unproven"
    # Under the very reward that the baseline has, the candidate did not bring the pay along. What
    # such attempts earn is then on one scale, and `divergence.reward_up` judges it.
    severity = "warn" if same else severity
    return [Finding("reward.length_gaming", severity, message, lines, numbers)]


def _shift(
    before: Sequence[OutcomeRow], after: Sequence[OutcomeRow], limits: ValidityLimits
) -> tuple[float, bool]:
    """Returns the difference of mean turns, and whether it is both large and beyond chance."""
    sides = [[float(row.turns) for row in rows] for rows in (before, after)]
    shift = fmean(sides[1]) - fmean(sides[0])
    error = math.sqrt(sum(pvariance(side) / len(side) for side in sides))
    large = abs(shift) > SHIFT_SD * math.sqrt(pvariance(sides[0]))
    return shift, large and abs(shift) > limits.divergence_z * error


class _Paid(NamedTuple):
    """How the reward depends on turns among attempts of equal outcome."""

    correlation: float
    slope: float  # reward of one more turn


def _within(rows: Sequence[OutcomeRow]) -> _Paid:
    """Relates reward to turns, each as a deviation from the mean of its outcome."""
    xs: list[float] = []
    ys: list[float] = []
    for is_clean in (True, False):
        group = [row for row in rows if bool(row.clean) is is_clean]
        if len(group) > 1:
            turns, rewards = [float(r.turns) for r in group], [float(r.reward or 0) for r in group]
            xs += [value - fmean(turns) for value in turns]
            ys += [value - fmean(rewards) for value in rewards]
    xx, yy = math.fsum(x * x for x in xs), math.fsum(y * y for y in ys)
    xy = math.fsum(x * y for x, y in zip(xs, ys, strict=True))
    return _Paid(xy / math.sqrt(xx * yy), xy / xx) if xx and yy else _Paid(0.0, 0.0)


def _worth(rows: Sequence[OutcomeRow]) -> float:
    """Returns how much more reward a clean success earns, or 0 if one kind is missing."""
    sides = [
        [float(r.reward or 0) for r in rows if bool(r.clean) is kind] for kind in (True, False)
    ]
    return fmean(sides[0]) - fmean(sides[1]) if all(sides) else 0.0


def _extremes(rows: Sequence[OutcomeRow], *, longest: bool) -> tuple[str, ...]:
    ordered = sorted(rows, key=lambda row: (-row.turns if longest else row.turns, row.key))
    return tuple(
        f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}: {row.turns} turns, "
        f"reward {row.reward:.3f}, {'clean' if row.clean else 'not clean'}"
        for row in ordered[:5]
    )
