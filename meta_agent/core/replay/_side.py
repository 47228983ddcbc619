"""One side of a replay: how well a reward agrees with the true outcomes of stored rollouts.

`comparison` explains alignment. *Good* rollouts are those that the sealed grader calls solved and
that have no flags. A reward that takes something from one, or puts it below an unclean attempt of
its group, raises a false alarm.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import mul
from typing import Final, NamedTuple

from meta_agent.core.evidence import Mean
from meta_agent.core.protocols import JSON

DEAD_STD: Final = 1e-3


class Seen(NamedTuple):
    """The outcomes of a group's rollouts, and which are clean (solved without flags)."""

    outcomes: list[bool]
    clean: list[bool]


@dataclass(slots=True)
class Truth:
    """Accumulates Pearson's r between total reward and clean success (0 or 1) of rollouts."""

    n: int = 0
    clean: int = 0
    total: float = 0.0
    squares: float = 0.0
    clean_total: float = 0.0

    def add(self, rewards: Sequence[float], clean: Sequence[bool]) -> None:
        self.n += len(clean)
        self.clean += sum(clean)
        self.total += math.fsum(rewards)
        self.squares += math.fsum(map(mul, rewards, rewards))
        self.clean_total += math.fsum(compress(rewards, clean))

    @property
    def r(self) -> float | None:
        """Returns the correlation of total reward and clean success; None if either is constant."""
        if self.n == 0:
            return None
        mean, share = self.total / self.n, self.clean / self.n
        scale = (self.squares / self.n - mean * mean) * share * (1 - share)
        if scale <= 1e-15:
            return None
        r = (self.clean_total / self.n - mean * share) / math.sqrt(scale)
        return max(-1.0, min(1.0, r))


@dataclass(slots=True)
class Side:
    """Accumulates how one harness's reward and filter treat stored rollouts (attempts at tasks)."""

    dead: int = 0
    violations: int = 0  # pairs in which the unclean rollout scores higher
    ties: int = 0
    pairs: int = 0
    weight: float = 0.0
    weight_alive: float = 0.0
    weight_mixed: float = 0.0  # on groups whose true outcomes differ
    aligned: float = 0.0
    truth: Truth = field(default_factory=Truth)
    spread_blind: Mean = field(default_factory=Mean)  # spread where the truth is all the same
    by_flagged: int = 0  # of the violations, those by an attempt that is solved and flagged
    good: int = 0  # clean attempts in groups where the truth differs
    good_outranked: int = 0  # of these, by at least one unclean attempt of their group
    good_penalised: int = 0  # clean attempts from which a component takes something away
    mixed: int = 0
    mixed_dropped: int = 0  # groups with both kinds that the filter drops

    def add(self, rewards: Sequence[float], truth: Seen, weight: float) -> None:
        spread = std(rewards)
        wrong, tied, pairs, outranked = ordering(rewards, truth.clean)
        self.dead += spread < DEAD_STD
        self.violations, self.ties = self.violations + wrong, self.ties + tied
        self.pairs += pairs
        if pairs:
            self.good += sum(truth.clean)
            self.good_outranked += outranked
            self.mixed += 1
            self.mixed_dropped += weight == 0
            if truth.outcomes != truth.clean and wrong:
                self.by_flagged += by_flagged(rewards, truth)
        self.weight += weight
        self.weight_alive += weight * (spread >= DEAD_STD)
        self.weight_mixed += weight * (pairs > 0)
        if pairs:
            self.aligned += weight * (pairs - tied - 2 * wrong) / pairs
        else:
            self.spread_blind.add(spread)

    def to_json(self, groups: int) -> dict[str, JSON]:
        return {
            "dead_group_ratio": share(self.dead, groups),
            "ordering_violations": share(self.violations, self.pairs),
            "ordering_ties": share(self.ties, self.pairs),
            "ordering_violations_by_flagged": share(self.by_flagged, self.pairs),
            "good_outranked": share(self.good_outranked, self.good),
            "good_penalised": share(self.good_penalised, self.truth.clean),
            "mixed_groups_dropped": share(self.mixed_dropped, self.mixed),
            "alignment": self.alignment,
            "reward_corr_clean": self.truth.r,
            "blind_spread": self.spread_blind.mean,
            "weight_per_group": share(self.weight, groups),
            "weight_on_live_groups": share(self.weight_alive, self.weight),
            "weight_on_mixed_groups": share(self.weight_mixed, self.weight),
        }

    @property
    def alignment(self) -> float:
        return share(self.aligned, self.weight)


def std(values: Sequence[float]) -> float:
    """Returns the population standard deviation of a few numbers."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


class Ordering(NamedTuple):
    """Counts a group's pairs of a clean and an unclean rollout: wrongly ordered, tied, and all.

    `outranked` counts the clean rollouts that score below at least one unclean rollout.
    """

    wrong: int
    tied: int
    all: int
    outranked: int


def ordering(rewards: Sequence[float], clean: Sequence[bool]) -> Ordering:
    """Returns how often a group's rewards put an unclean rollout above a clean one, or equal."""
    good = sorted(r for r, is_clean in zip(rewards, clean, strict=True) if is_clean)
    bad = [r for r, is_clean in zip(rewards, clean, strict=True) if not is_clean]
    below = [bisect_left(good, r) for r in bad]
    wrong = sum(below)
    tied = sum(bisect_right(good, r) - b for r, b in zip(bad, below, strict=True))
    return Ordering(wrong, tied, len(good) * len(bad), max(below, default=0))


def by_flagged(rewards: Sequence[float], truth: Seen) -> int:
    """Returns in how many pairs a solved but flagged attempt of a group outscores a clean one."""
    solved = [
        (reward, clean)
        for reward, outcome, clean in zip(rewards, truth.outcomes, truth.clean, strict=True)
        if clean or outcome
    ]
    return ordering([reward for reward, _ in solved], [clean for _, clean in solved]).wrong


def share(hits: float, whole: float) -> float:
    """Returns `hits` / `whole`, or 0 if `whole` is 0."""
    return hits / whole if whole else 0.0
