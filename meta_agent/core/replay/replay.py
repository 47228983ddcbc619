"""Replay: stored rollouts are scored again under another reward and filter, before any training.

Promises: the harness code of both sides runs in its sandbox, and receives lines as they are stored.
While a sandbox scores a chunk, this side parses the next and compares the one before. So three
chunks are in memory at a time, whatever the number of records. At most `OPEN_GROUPS` other groups
may lie between the members of a group in the stream (a store writes them together).

Its limit: it tells how a reward orders behaviour that *was* observed. It cannot predict what a
policy trained on it will do, or how it orders other behaviour. So its result ranks and explains; it
never promotes. The probes (`probes`) go a little further: they score known-bad attempts, changed in
ways that a policy could find.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol

from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.replay._lines import Slim, slim
from meta_agent.core.replay.comparison import Comparison, GroupRow, ReplayReport, Scores
from meta_agent.core.replay.probes import ProbeSample, Score, probe

CHUNK_BYTES: Final = 512 * 1024
OPEN_GROUPS: Final = 512
GROUPS_PER_STEP: Final = 16
FILTERED_AHEAD: Final = 8
"""The most batches of groups that wait for their weights: about as many as two chunks hold."""

Rewards = Sequence[Mapping[str, float]]


class Scorer(Protocol):
    """A harness in its sandbox that scores stored rollouts with its reward and filter.

    Each method starts work and returns at once. The function that it returns waits for the result.
    """

    weights: dict[str, float]

    def begin_reward(self, lines: Sequence[bytes]) -> Callable[[], list[dict[str, float]]]: ...

    def begin_keep(self, groups: Sequence[Mapping[str, JSON]]) -> Callable[[], list[float]]: ...


class _Scored(NamedTuple):
    """A chunk of rollouts with both rewards."""

    records: Sequence[Slim]
    before: Rewards
    after: Rewards


@dataclass(slots=True)
class _Replay:
    """The state of one replay while rollouts stream by."""

    sides: tuple[Scorer, Scorer]
    stored_commit: str | None
    sample: ProbeSample | None
    comparison: Comparison = field(default_factory=Comparison)


def replay(
    base_session: Scorer,
    candidate_session: Scorer,
    rollouts: Iterable[Rollout | bytes],
    *,
    stored_commit: str | None = None,
    groups_per_step: int = GROUPS_PER_STEP,
    probes: bool = True,
) -> ReplayReport:
    """Scores rollouts (or stored lines) under two harnesses and returns the comparison.

    Args:
        base_session: the harness to compare with.
        candidate_session: the harness with the change.
        rollouts: records, or their stored lines of JSON.
        stored_commit: the base's harness commit. Records made under it already carry the base's
            rewards, which are used as they are: the base's code then runs for its filter only.
        groups_per_step: how many groups a filter receives at once, as in training.
        probes: whether known-bad attempts are also made to look good and scored (a bounded number).

    Raises:
        CandidateError: the candidate's reward or filter broke its contract.
    """
    state = _Replay(
        (base_session, candidate_session), stored_commit, ProbeSample() if probes else None
    )
    comparison = state.comparison
    waiting: deque[_Filtered] = deque()
    for batch in _batches(_grouped(_rows(state, rollouts)), groups_per_step):
        waiting.append(_filter(batch, state.sides))
        if len(waiting) > FILTERED_AHEAD:
            waiting.popleft().compare(comparison)
    for filtered in waiting:
        filtered.compare(comparison)
    scores = _totals(base_session), _totals(candidate_session)
    beaten = probe(state.sample, scores) if state.sample else ()
    return comparison.report(beaten)


# --- scoring ------------------------------------------------------------------------------------


def _score_ahead(state: _Replay, rollouts: Iterable[Rollout | bytes]) -> Iterator[_Scored]:
    """Yields scored chunks. One chunk is parsed here while the sandboxes score the one before."""
    waiting: _Pending | None = None
    for chunk in _chunks(rollouts, state.comparison):
        sent = _send(state, chunk)
        if waiting:
            yield waiting.scored()
        waiting = sent
    if waiting:
        yield waiting.scored()


class _Pending(NamedTuple):
    records: Sequence[Slim]
    before: Callable[[], Rewards]
    after: Callable[[], Rewards]

    def scored(self) -> _Scored:
        return _Scored(self.records, self.before(), self.after())


def _send(state: _Replay, chunk: Sequence[Slim]) -> _Pending:
    lines = [record.line for record in chunk]
    base_is_scored = all(r.rewards and r.harness_commit == state.stored_commit for r in chunk)
    before = (
        (lambda: [r.rewards for r in chunk])
        if base_is_scored
        else state.sides[0].begin_reward(lines)
    )
    return _Pending(chunk, before, state.sides[1].begin_reward(lines))


def _chunks(
    rollouts: Iterable[Rollout | bytes], comparison: Comparison
) -> Iterator[Sequence[Slim]]:
    chunk: list[Slim] = []
    size = 0
    for record in map(slim, rollouts):
        if record.failed:
            comparison.skipped += 1
            continue
        chunk.append(record)
        size += len(record.line)
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _totals(side: Scorer) -> Score:
    """Returns a function that starts scoring lines, and returns a function for their totals."""

    def begin(lines: Sequence[bytes]) -> Callable[[], list[float]]:
        reply = side.begin_reward(lines)
        return lambda: [total(rewards, side.weights) for rewards in reply()]

    return begin


# --- grouping -----------------------------------------------------------------------------------


class _Row(NamedTuple):
    """One rollout with both totals."""

    record: Slim
    before: float
    after: float


def _rows(state: _Replay, rollouts: Iterable[Rollout | bytes]) -> Iterator[_Row]:
    sides, sample = state.sides, state.sample
    for chunk in _score_ahead(state, rollouts):
        before = _scores(chunk.records, chunk.before, sides[0].weights)
        after = _scores(chunk.records, chunk.after, sides[1].weights)
        state.comparison.add_chunk(before, after)
        for row in map(_Row, chunk.records, before.totals, after.totals):
            if sample is not None:
                sample.add(row.record, row.before, row.after)
            yield row


def _scores(records: Sequence[Slim], parts: Rewards, weights: Mapping[str, float]) -> Scores:
    totals = [total(rewards, weights) for rewards in parts]
    return Scores(totals, [record.clean for record in records], parts, weights)


def total(rewards: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Returns the weighted sum of reward components, as in training. A missing weight is 1."""
    whole = 0.0
    for name, value in rewards.items():
        whole += weights.get(name, 1.0) * value
    return whole


def _grouped(rows: Iterable[_Row]) -> Iterator[GroupRow]:
    """Yields whole groups, the longest unchanged first. The stream decides the order."""
    open_groups: OrderedDict[str, GroupRow] = OrderedDict()
    for record, before, after in rows:
        group = open_groups.get(record.group_id)
        if group is None:
            group = open_groups[record.group_id] = GroupRow(record.task_key)
            if len(open_groups) > OPEN_GROUPS:
                yield open_groups.popitem(last=False)[1]
        else:
            open_groups.move_to_end(record.group_id)
        group.add(before, after, record)
    yield from open_groups.values()


# --- filtering ----------------------------------------------------------------------------------


class _Filtered(NamedTuple):
    """A batch of groups, and the weights that both filters will give them."""

    groups: Sequence[GroupRow]
    before: Callable[[], list[float]]
    after: Callable[[], list[float]]

    def compare(self, comparison: Comparison) -> None:
        for group, old, new in zip(self.groups, self.before(), self.after(), strict=True):
            comparison.add_group(group, old, new)


def _batches(groups: Iterable[GroupRow], size: int) -> Iterator[list[GroupRow]]:
    """Yields `size` groups at a time, without groups of one rollout, which have no order."""
    groups = iter(groups)
    while step := list(islice(groups, size)):
        if batch := [group for group in step if len(group.before) >= 2]:
            yield batch


def _filter(groups: list[GroupRow], sides: tuple[Scorer, Scorer]) -> _Filtered:
    before = sides[0].begin_keep([group.view(group.before) for group in groups])
    after = sides[1].begin_keep([group.view(group.after) for group in groups])
    return _Filtered(groups, before, after)
