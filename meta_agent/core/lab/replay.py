"""Replay: stored rollouts are scored again under another reward and filter, before any training.

*Alignment* is the main number. In a group, of all pairs of a clean and an unclean rollout, it is
the share that the reward orders rightly minus the share that it orders wrongly (Goodman and
Kruskal's difference; a tie counts as neither). Groups are weighted as the filter weights them. A
group without such a pair adds only its weight, so dropping it concentrates the signal. A change
does harm by what happens in the groups that have such a pair: it orders them worse, or hears them
less. That others come to life, as where a reward pays for parts, is no harm.

Promises: the harness code of both sides runs in its sandbox, and receives lines as they are stored.
While a sandbox scores a chunk, this side parses the next one. So two chunks are in memory at a
time, whatever the number of records. At most `OPEN_GROUPS` other groups may lie between the members
of a group in the stream (a store writes them together).

Its limit: it tells how a reward orders behaviour that *was* observed. It cannot predict what a
policy trained on it will do. So its result ranks and explains; it never promotes.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from statistics import pstdev
from typing import Final, Literal, NamedTuple, Protocol

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.rollouts.record import to_line

CHUNK_BYTES: Final = 512 * 1024
OPEN_GROUPS: Final = 512
GROUPS_PER_STEP: Final = 16
"""A filter receives so many groups at once, as in training."""
DEAD_STD: Final = 1e-3
ALIGNMENT_MOVE: Final = 0.02
VIOLATION_MOVE: Final = 0.01
LIMIT_OF_VALIDITY: Final = (
    "A replay orders behaviour that was seen; it cannot predict what a policy trained on the "
    "change will do. The attempts are those of the policy that made them: under another reward a "
    "policy moves elsewhere, so this is counterfactual for the scoring, not for the behaviour."
)

Reading = Literal["improves", "harms", "neutral"]
Rewards = Sequence[Mapping[str, float]]


class Scorer(Protocol):
    """A harness in its sandbox that scores stored rollouts with its reward and filter.

    Each method starts work and returns at once. The function that it returns waits for the result.
    """

    weights: dict[str, float]

    def begin_reward(self, lines: Sequence[bytes]) -> Callable[[], list[dict[str, float]]]: ...

    def begin_keep(self, groups: Sequence[Mapping[str, JSON]]) -> Callable[[], list[float]]: ...


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The comparison of two harnesses over the same stored rollouts.

    `before` and `after` hold the figures of each harness by name.
    """

    rollouts: int
    skipped: int  # ended by an error: training would not have scored them
    groups: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    revived: int  # dead groups that come to life
    killed: int
    reading: Reading
    reasons: tuple[str, ...]
    limit: str = LIMIT_OF_VALIDITY

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "reasons": list(self.reasons)}


def replay(
    base_session: Scorer,
    candidate_session: Scorer,
    rollouts: Iterable[Rollout | bytes],
    *,
    stored_commit: str | None = None,
) -> ReplayReport:
    """Scores rollouts (or stored lines) under two harnesses and returns the comparison.

    Args:
        base_session: the harness to compare with.
        candidate_session: the harness with the change.
        rollouts: records, or their stored lines of JSON.
        stored_commit: the base's harness commit. Records made under it already carry the base's
            rewards, which are used as they are: the base's code then runs for its filter only.

    Raises:
        CandidateError: the candidate's reward or filter broke its contract.
        IntegrityError: a line holds no rollout.
    """
    comparison = _Comparison()
    scored = _scored(comparison, base_session, candidate_session, rollouts, stored_commit)
    groups = (group for group in _grouped(scored) if len(group.before) >= 2)
    while batch := list(islice(groups, GROUPS_PER_STEP)):
        before = base_session.begin_keep([group.view(group.before) for group in batch])
        after = candidate_session.begin_keep([group.view(group.after) for group in batch])
        for group, old, new in zip(batch, before(), after(), strict=True):
            comparison.add(group, old, new)
    return comparison.report()


# --- scoring ------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """One rollout with both totals."""

    record: Mapping[str, JSON]
    before: float
    after: float


def _scored(
    comparison: _Comparison,
    base: Scorer,
    candidate: Scorer,
    rollouts: Iterable[Rollout | bytes],
    stored_commit: str | None,
) -> Iterator[_Row]:
    """Yields rollouts with both totals. The next chunk is parsed while the sandboxes score one."""

    def send(records: list[dict[str, JSON]], lines: list[bytes]) -> Callable[[], Iterator[_Row]]:
        stored = [record["rewards"] for record in records]
        is_scored = all(
            record["rewards"] and record["harness_commit"] == stored_commit for record in records
        )
        before = (lambda: stored) if is_scored else base.begin_reward(lines)
        after = candidate.begin_reward(lines)
        return lambda: (
            _Row(record, total(old, base.weights), total(new, candidate.weights))
            for record, old, new in zip(records, before(), after(), strict=True)
        )

    waiting: Callable[[], Iterator[_Row]] = lambda: iter(())  # noqa: E731
    for records, lines in _chunks(comparison, rollouts):
        sent = send(records, lines)
        yield from waiting()
        waiting = sent
    yield from waiting()


def _chunks(
    comparison: _Comparison, rollouts: Iterable[Rollout | bytes]
) -> Iterator[tuple[list[dict[str, JSON]], list[bytes]]]:
    records: list[dict[str, JSON]] = []
    lines: list[bytes] = []
    size = 0
    for rollout in rollouts:
        line = to_line(rollout) if isinstance(rollout, Rollout) else rollout
        record = _read(line)
        if record["error"] is not None:
            comparison.skipped += 1
            continue
        comparison.rollouts += 1
        records.append(record)
        lines.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(line)
        if size >= CHUNK_BYTES:
            yield records, lines
            records, lines, size = [], [], 0
    if records:
        yield records, lines


_KEYS: Final = frozenset(
    {"group_id", "task_key", "harness_commit", "rewards", "outcome", "flags", "error"}
)


def _read(line: bytes) -> dict[str, JSON]:
    try:
        record = json.loads(line)
        return {key: record[key] for key in _KEYS}
    except (ValueError, TypeError, KeyError) as error:
        raise IntegrityError(
            f"a stored line holds no rollout: {error!r}; restore the workspace from a copy"
        ) from error


def total(rewards: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Returns the weighted sum of reward components, as in training. A missing weight is 1."""
    return sum(weights.get(name, 1.0) * value for name, value in rewards.items())


# --- grouping -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    """One group of rollouts: total rewards before and after a change, and the true outcomes."""

    task_key: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    outcomes: list[bool] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)  # solved without flags

    def view(self, rewards: Sequence[float]) -> dict[str, JSON]:
        """Returns the group as a harness's filter receives it, with `rewards` as totals."""
        return {"task_key": self.task_key, "rewards": list(rewards), "outcomes": self.outcomes}


def _grouped(rows: Iterable[_Row]) -> Iterator[_Group]:
    """Yields whole groups, the longest unchanged first. The stream decides the order."""
    open_groups: OrderedDict[str, _Group] = OrderedDict()
    for record, before, after in rows:
        group = open_groups.setdefault(record["group_id"], _Group(record["task_key"]))
        open_groups.move_to_end(record["group_id"])
        outcome = bool(record["outcome"])
        group.before.append(before)
        group.after.append(after)
        group.outcomes.append(outcome)
        group.clean.append(outcome and not record["flags"])
        if len(open_groups) > OPEN_GROUPS:
            yield open_groups.popitem(last=False)[1]
    yield from open_groups.values()


# --- comparing ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Side:
    """Accumulates how one harness's reward and filter treat groups of stored rollouts."""

    dead: int = 0
    violations: int = 0  # pairs in which the unclean rollout scores higher
    pairs: int = 0  # of a clean and an unclean rollout of a group
    weight: float = 0.0
    mixed: int = 0  # groups with such a pair, and their weight
    weight_mixed: float = 0.0
    aligned: float = 0.0

    def add(self, rewards: Sequence[float], clean: Sequence[bool], weight: float) -> bool:
        """Adds a group. Returns True if its rewards are all equal: it would teach nothing."""
        good = sorted(r for r, is_clean in zip(rewards, clean, strict=True) if is_clean)
        bad = [r for r, is_clean in zip(rewards, clean, strict=True) if not is_clean]
        wrong = sum(bisect_left(good, r) for r in bad)
        tied = sum(bisect_right(good, r) for r in bad) - wrong
        pairs = len(good) * len(bad)
        is_dead = pstdev(rewards) < DEAD_STD
        self.dead += is_dead
        self.violations += wrong
        self.pairs += pairs
        self.weight += weight
        if pairs:
            self.mixed += 1
            self.weight_mixed += weight
            self.aligned += weight * (pairs - tied - 2 * wrong) / pairs
        return is_dead

    def figures(self, groups: int) -> dict[str, float]:
        return {
            "dead_group_ratio": _share(self.dead, groups),
            "ordering_violations": _share(self.violations, self.pairs),
            "alignment": _share(self.aligned, self.weight),
            "alignment_of_mixed": _share(self.aligned, self.weight_mixed),
            "weight_of_mixed": _share(self.weight_mixed, self.mixed),
        }


@dataclass(slots=True)
class _Comparison:
    """Accumulates the comparison of two rewards and filters, in constant memory."""

    before: _Side = field(default_factory=_Side)
    after: _Side = field(default_factory=_Side)
    rollouts: int = 0
    skipped: int = 0
    groups: int = 0
    revived: int = 0
    killed: int = 0

    def add(self, group: _Group, weight_before: float, weight_after: float) -> None:
        self.groups += 1
        was_dead = self.before.add(group.before, group.clean, weight_before)
        is_dead = self.after.add(group.after, group.clean, weight_after)
        self.revived += was_dead and not is_dead
        self.killed += is_dead and not was_dead

    def report(self) -> ReplayReport:
        before, after = self.before.figures(self.groups), self.after.figures(self.groups)
        reading, reasons = self._reading(before, after)
        return ReplayReport(
            *(self.rollouts, self.skipped, self.groups, before, after),
            *(self.revived, self.killed, reading, reasons),
        )

    def _reading(
        self, before: Mapping[str, float], after: Mapping[str, float]
    ) -> tuple[Reading, tuple[str, ...]]:
        if not self.groups:
            return "neutral", ("no group of two or more: a replay has nothing to compare",)
        aligned, wrong = "alignment", "ordering_violations"
        gain = after[aligned] - before[aligned]
        mixed = ("alignment_of_mixed", "weight_of_mixed")
        lost = max(before[name] - after[name] for name in mixed)
        reasons = (
            f"alignment with clean success {before[aligned]:.3f} -> {after[aligned]:.3f}",
            f"ordering violations {before[wrong]:.1%} -> {after[wrong]:.1%}",
            f"dead groups {self.before.dead} -> {self.after.dead} of {self.groups}",
        )
        if lost >= ALIGNMENT_MOVE or after[wrong] - before[wrong] >= VIOLATION_MOVE:
            return "harms", reasons
        return ("improves" if gain >= ALIGNMENT_MOVE else "neutral"), reasons


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
