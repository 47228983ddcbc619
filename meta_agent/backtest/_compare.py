"""What a replay compares: groups and totals under two rewards, and the reading of the difference.

*Alignment* is the one number behind a reading. In a group, of all pairs of a clean and an unclean
rollout, it is the share that the reward orders rightly less the share it orders wrongly (Goodman
and Kruskal's difference; a tie counts as neither). Groups are weighted as the filter weights them,
and a group that gives no pair adds nothing but its weight: dropping it concentrates the signal.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, compress
from operator import mul
from typing import Final, Literal

from meta_agent.evidence import Mean
from meta_agent.protocols import JSON

DEAD_STD: Final = 1e-3
ALIGNMENT_MOVE: Final = 0.02
VIOLATION_MOVE: Final = 0.01
LIMIT_OF_VALIDITY: Final = (
    "A replay orders behaviour that was seen; it cannot predict what a policy trained on the "
    "change will do."
)
_DISTINCT_VALUES: Final = 1000
_RANKED: Final = 64  # members of a group whose ranks are compared; the pairs grow as the square

Reading = Literal["improves", "harms", "neutral"]


@dataclass(slots=True)
class GroupRow:
    """One group: totals under both rewards, and the truth."""

    task_key: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    outcomes: list[bool] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)

    def add(self, before: float, after: float, *, outcome: bool, clean: bool) -> None:
        self.before.append(before)
        self.after.append(after)
        self.outcomes.append(outcome)
        self.clean.append(clean)

    def view(self, rewards: Sequence[float]) -> dict[str, JSON]:
        """What a filter is given."""
        return {"task_key": self.task_key, "rewards": list(rewards), "outcomes": self.outcomes}


@dataclass(slots=True)
class Truth:
    """Pearson's r of a total reward and clean success, from sums: one of the two is 0 or 1."""

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
    """One harness over the stored rollouts. Shares of groups, pairs or weight as named."""

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

    def add(self, rewards: Sequence[float], clean: Sequence[bool], weight: float) -> None:
        spread = std(rewards)
        wrong, tied, pairs = ordering(rewards, clean)
        self.dead += spread < DEAD_STD
        self.violations, self.ties = self.violations + wrong, self.ties + tied
        self.pairs += pairs
        self.weight += weight
        self.weight_alive += weight * (spread >= DEAD_STD)
        self.weight_mixed += weight * (pairs > 0)
        if pairs:
            self.aligned += weight * (pairs - tied - 2 * wrong) / pairs
        else:
            self.spread_blind.add(spread)

    def to_json(self, groups: int) -> dict[str, JSON]:
        return {
            "dead_group_ratio": _share(self.dead, groups),
            "ordering_violations": _share(self.violations, self.pairs),
            "ordering_ties": _share(self.ties, self.pairs),
            "alignment": self.alignment,
            "reward_corr_clean": self.truth.r,
            "blind_spread": self.spread_blind.mean,
            "weight_per_group": _share(self.weight, groups),
            "weight_on_live_groups": _share(self.weight_alive, self.weight),
            "weight_on_mixed_groups": _share(self.weight_mixed, self.weight),
        }

    @property
    def alignment(self) -> float:
        return _share(self.aligned, self.weight)


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Two harnesses over the same stored rollouts. `before` and `after` hold `Side` numbers."""

    rollouts: int
    skipped: int  # ended by an error: training would not have scored them
    groups: int
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]
    revived: int  # dead groups that come to life
    revived_mixed: int  # of these, groups in which the truth differs
    killed: int
    rank_changes: float  # share of within-group pairs whose order changed
    constant_offset: float | None  # set where all totals moved by the same amount
    constant_components: tuple[str, ...]  # of the candidate: at least 99 % one value
    reading: Reading
    reasons: tuple[str, ...]
    limit: str = LIMIT_OF_VALIDITY

    def to_json(self) -> dict[str, JSON]:
        lists = {"reasons": list(self.reasons), "constant_components": [*self.constant_components]}
        return {**asdict(self), **lists}


@dataclass(slots=True)
class Comparison:
    """Accumulates; memory does not grow with the number of rollouts."""

    before: Side = field(default_factory=Side)
    after: Side = field(default_factory=Side)
    moved: Mean = field(default_factory=Mean)
    components: dict[str, Counter[float]] = field(default_factory=dict)
    rollouts: int = 0
    skipped: int = 0
    groups: int = 0
    revived: int = 0
    revived_mixed: int = 0
    killed: int = 0
    changed: int = 0
    pairs: int = 0

    def add_chunk(
        self,
        before: Sequence[float],
        after: Sequence[float],
        clean: Sequence[bool],
        parts: Sequence[Mapping[str, float]],
    ) -> None:
        """Totals and components of some rollouts, in the same order."""
        self.rollouts += len(clean)
        self.before.truth.add(before, clean)
        self.after.truth.add(after, clean)
        for old, new in zip(before, after, strict=True):
            self.moved.add(new - old)
        for name in sorted({name for row in parts for name in row}):
            values = self.components.setdefault(name, Counter())
            if len(values) < _DISTINCT_VALUES:
                values.update(row[name] for row in parts if name in row)

    def add_group(self, group: GroupRow, weight_before: float, weight_after: float) -> None:
        self.groups += 1
        self.before.add(group.before, group.clean, weight_before)
        self.after.add(group.after, group.clean, weight_after)
        was, now = std(group.before) < DEAD_STD, std(group.after) < DEAD_STD
        self.revived += was and not now
        self.revived_mixed += was and not now and len(set(group.clean)) == 2
        self.killed += now and not was
        changed, pairs = rank_changes(group.before, group.after)
        self.changed, self.pairs = self.changed + changed, self.pairs + pairs

    def report(self) -> ReplayReport:
        reading, reasons = self._read()
        return ReplayReport(
            rollouts=self.rollouts,
            skipped=self.skipped,
            groups=self.groups,
            before=self.before.to_json(self.groups),
            after=self.after.to_json(self.groups),
            revived=self.revived,
            revived_mixed=self.revived_mixed,
            killed=self.killed,
            rank_changes=_share(self.changed, self.pairs),
            constant_offset=self._offset(),
            constant_components=self._constant(),
            reading=reading,
            reasons=reasons,
        )

    def _offset(self) -> float | None:
        same = self.rollouts > 1 and self.moved.std < 1e-9 * max(1.0, abs(self.moved.mean))
        return self.moved.mean if same and abs(self.moved.mean) > 1e-9 else None

    def _constant(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, values in sorted(self.components.items())
            if max(values.values()) >= 0.99 * self.rollouts
        )

    def _read(self) -> tuple[Reading, tuple[str, ...]]:
        if not self.groups:
            return "neutral", ("no group of two or more: a replay has nothing to compare",)
        gain = self.after.alignment - self.before.alignment
        wrong = self._violations(self.after) - self._violations(self.before)
        aligned = f"{self.before.alignment:.3f} -> {self.after.alignment:.3f}"
        told = (
            f"alignment with clean success {aligned}",
            f"ordering violations {self._violations(self.before):.1%} -> "
            f"{self._violations(self.after):.1%}",
            f"dead groups {self.before.dead} -> {self.after.dead} of {self.groups}",
        )
        if gain <= -ALIGNMENT_MOVE or wrong >= VIOLATION_MOVE:
            return "harms", told
        return ("improves" if gain >= ALIGNMENT_MOVE else "neutral"), told

    @staticmethod
    def _violations(side: Side) -> float:
        return _share(side.violations, side.pairs)


def std(values: Sequence[float]) -> float:
    """Population standard deviation of a few numbers."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def ordering(rewards: Sequence[float], clean: Sequence[bool]) -> tuple[int, int, int]:
    """(wrong, tied, all) pairs of an unclean and a clean rollout."""
    good = sorted(r for r, is_clean in zip(rewards, clean, strict=True) if is_clean)
    bad = [r for r, is_clean in zip(rewards, clean, strict=True) if not is_clean]
    below = [bisect_left(good, r) for r in bad]
    wrong = sum(below)
    tied = sum(bisect_right(good, r) - b for r, b in zip(bad, below, strict=True))
    return wrong, tied, len(good) * len(bad)


def rank_changes(before: Sequence[float], after: Sequence[float]) -> tuple[int, int]:
    """(pairs whose order changed, all pairs); from a tie to an order is a change."""
    # Rounded, so that a constant that was added does not look like a broken tie.
    both = [(round(b, 9), round(a, 9)) for b, a in zip(before, after, strict=True)][:_RANKED]
    changed = pairs = 0
    for (b1, a1), (b2, a2) in combinations(both, 2):
        pairs += 1
        changed += (b1 > b2) is not (a1 > a2) or (b1 < b2) is not (a1 < a2)
    return changed, pairs


def _share(hits: float, whole: float) -> float:
    return hits / whole if whole else 0.0
