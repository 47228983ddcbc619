"""Measures how differently two rewards rank the rollouts of the same groups.

The figures are the share of changed pairs, Kendall's tau and Spearman's rho. Tau is tau-b over all
within-group pairs of the stream together. Rho is averaged over the groups in which both rewards
differ at all. A group is compared by its first `RANKED` members.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, NamedTuple

from meta_agent.core.evidence import Mean

RANKED: Final = 64  # the pairs grow as the square


class Pairs(NamedTuple):
    """Counts of the pairs of rollouts in one group, by their order under two rewards.

    A pair is tied before, tied after, concordant or discordant.
    """

    all: int
    changed: int
    concordant: int
    discordant: int
    tied_before: int
    tied_after: int


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Returns twice the rank of each of the first 64 values; equal values share their mean rank."""
    # Rounded, so that a constant that was added does not look like a broken tie.
    rounded = [round(value, 9) for value in values[:RANKED]]
    order = sorted(rounded)
    return [bisect_left(order, value) + bisect_right(order, value) for value in rounded]


def compare_pairs(before: Sequence[int], after: Sequence[int]) -> Pairs:
    """Counts the pairs of a group's rollouts by how their order changed between two rewards.

    `before` and `after` are the rollouts' ranks. A tie that begins or ends is a change.
    """
    count = len(before) * (len(before) - 1) // 2
    if before == after:
        tied = _tied(before)
        return Pairs(count, 0, count - tied, 0, tied, tied)
    changed = concordant = discordant = tied_before = tied_after = 0
    for (b1, a1), (b2, a2) in combinations(list(zip(before, after, strict=True)), 2):
        was, now = (b1 > b2) - (b1 < b2), (a1 > a2) - (a1 < a2)
        changed += was != now
        tied_before += was == 0
        tied_after += now == 0
        concordant += was * now > 0
        discordant += was * now < 0
    return Pairs(count, changed, concordant, discordant, tied_before, tied_after)


def _tied(ranks: Sequence[int]) -> int:
    """Returns the number of pairs of equal ranks."""
    return sum(times * (times - 1) // 2 for times in Counter(ranks).values())


def rho(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Returns Pearson's correlation of two sequences, or None if one of them is constant."""
    n = len(before)
    x, y = sum(before) / n, sum(after) / n
    xy = sum((a - x) * (b - y) for a, b in zip(before, after, strict=True))
    xx, yy = sum((a - x) ** 2 for a in before), sum((b - y) ** 2 for b in after)
    return xy / math.sqrt(xx * yy) if xx and yy else None


@dataclass(slots=True)
class Ranks:
    """Accumulates rank correlations of two rewards over groups of rollouts, in constant memory."""

    pairs: int = 0
    changed: int = 0
    _order: int = 0  # concordant less discordant
    _ordered_before: int = 0
    _ordered_after: int = 0
    _rho: Mean = field(default_factory=Mean)

    def add(self, before: Sequence[float], after: Sequence[float]) -> None:
        """Adds one group (64 rollouts at most) by the total rewards before and after the change."""
        was, now = doubled_ranks(before), doubled_ranks(after)
        pairs = compare_pairs(was, now)
        self.pairs += pairs.all
        self.changed += pairs.changed
        self._order += pairs.concordant - pairs.discordant
        self._ordered_before += pairs.all - pairs.tied_before
        self._ordered_after += pairs.all - pairs.tied_after
        if was == now:  # the usual case of a small edit, and the cheap one
            if pairs.concordant:
                self._rho.add(1.0)
        elif (correlation := rho(was, now)) is not None:
            self._rho.add(correlation)

    @property
    def changes(self) -> float:
        """Returns the share of pairs of rollouts that the two rewards order differently."""
        return self.changed / self.pairs if self.pairs else 0.0

    @property
    def kendall(self) -> float | None:
        """Returns Kendall's tau-b over all pairs within groups; None if one reward ties all."""
        scale = math.sqrt(self._ordered_before * self._ordered_after)
        return self._order / scale if scale else None

    @property
    def spearman(self) -> float | None:
        """Returns the mean over groups of Spearman's rank correlation; None if no group has one."""
        return self._rho.mean if self._rho.n else None
