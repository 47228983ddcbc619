"""Replay: stored rollouts scored again under another reward and filter, before any training.

Promises: the harness code of both sides runs in its sandbox; lines go there as they are stored;
two chunks are in memory at a time, whatever the number of records. The members of a group may lie
apart by at most `OPEN_GROUPS` other groups in the stream (a store writes them together).

Its limit of validity: it tells how a reward orders behaviour that *was* seen. What a policy trained
on it will do, and behaviour nobody has shown yet, it cannot predict. So a reading ranks and
explains; it never promotes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from meta_agent.backtest._compare import Comparison, GroupRow, ReplayReport
from meta_agent.backtest._lines import Slim, slim
from meta_agent.protocols import JSON, Rollout

CHUNK_BYTES: Final = 512 * 1024
OPEN_GROUPS: Final = 512
GROUPS_PER_STEP: Final = 16


class Scorer(Protocol):
    """The part of `HarnessSession` that a replay needs."""

    weights: dict[str, float]

    def reward_lines(self, lines: Sequence[bytes]) -> list[dict[str, float]]: ...

    def keep(self, groups: Sequence[Mapping[str, JSON]]) -> list[float]: ...


class _Scored(NamedTuple):
    """A chunk after both rewards."""

    records: Sequence[Slim]
    before: Sequence[Mapping[str, float]]
    after: Sequence[Mapping[str, float]]


def replay(
    base_session: Scorer,
    candidate_session: Scorer,
    rollouts: Iterable[Rollout | bytes],
    *,
    stored_commit: str | None = None,
    groups_per_step: int = GROUPS_PER_STEP,
) -> ReplayReport:
    """Scores rollouts (or stored lines) under both harnesses and compares.

    Args:
        base_session: the harness to compare with.
        candidate_session: the harness with the change.
        rollouts: records, or lines as `RolloutStore.iter_lines` gives them.
        stored_commit: the base's harness commit. Records made under it already carry the base's
            rewards, which are used as they are: the base's code then runs for its filter only.
        groups_per_step: how many groups a filter sees at once, as in training.

    Raises:
        CandidateError: the candidate's reward or filter broke its contract.
    """
    comparison = Comparison()
    sides = (base_session, candidate_session)
    batch: list[GroupRow] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        chunks = _score_ahead(pool, sides, rollouts, stored_commit, comparison)
        for group in _grouped(_rows(chunks, sides, comparison)):
            batch.append(group)
            if len(batch) == groups_per_step:
                _judge_batch(batch, sides, comparison)
    _judge_batch(batch, sides, comparison)
    return comparison.report()


# --- scoring ------------------------------------------------------------------------------------


def _score_ahead(
    pool: ThreadPoolExecutor,
    sides: tuple[Scorer, Scorer],
    rollouts: Iterable[Rollout | bytes],
    stored_commit: str | None,
    comparison: Comparison,
) -> Iterator[_Scored]:
    """One chunk is parsed here while the sandboxes score the one before."""
    waiting: _Pending | None = None
    for chunk in _chunks(rollouts, comparison):
        sent = _send(pool, sides, chunk, stored_commit)
        if waiting:
            yield waiting.scored()
        waiting = sent
    if waiting:
        yield waiting.scored()


class _Pending(NamedTuple):
    records: Sequence[Slim]
    before: Future[list[dict[str, float]]] | None  # None: the stored rewards are the base's
    after: Future[list[dict[str, float]]]

    def scored(self) -> _Scored:
        before = self.before.result() if self.before else [r.rewards for r in self.records]
        return _Scored(self.records, before, self.after.result())


def _send(
    pool: ThreadPoolExecutor,
    sides: tuple[Scorer, Scorer],
    chunk: Sequence[Slim],
    stored_commit: str | None,
) -> _Pending:
    lines = [record.line for record in chunk]
    known = all(r.rewards and r.harness_commit == stored_commit for r in chunk)
    before = None if known else pool.submit(sides[0].reward_lines, lines)
    return _Pending(chunk, before, pool.submit(sides[1].reward_lines, lines))


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


# --- grouping -----------------------------------------------------------------------------------


def _rows(
    chunks: Iterable[_Scored], sides: tuple[Scorer, Scorer], comparison: Comparison
) -> Iterator[tuple[Slim, float, float]]:
    for chunk in chunks:
        before = [total(rewards, sides[0].weights) for rewards in chunk.before]
        after = [total(rewards, sides[1].weights) for rewards in chunk.after]
        comparison.add_chunk(before, after, [r.clean for r in chunk.records], chunk.after)
        yield from zip(chunk.records, before, after, strict=True)


def total(rewards: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted sum that training would see."""
    whole = 0.0
    for name, value in rewards.items():
        whole += weights.get(name, 1.0) * value
    return whole


def _grouped(rows: Iterable[tuple[Slim, float, float]]) -> Iterator[GroupRow]:
    """Whole groups, the longest untouched first, in an order that depends on the stream alone."""
    open_groups: OrderedDict[str, GroupRow] = OrderedDict()
    for record, before, after in rows:
        group = open_groups.get(record.group_id)
        if group is None:
            group = open_groups[record.group_id] = GroupRow(record.task_key)
            if len(open_groups) > OPEN_GROUPS:
                yield open_groups.popitem(last=False)[1]
        else:
            open_groups.move_to_end(record.group_id)
        group.add(before, after, outcome=record.outcome, clean=record.clean)
    yield from open_groups.values()


def _judge_batch(
    batch: list[GroupRow], sides: tuple[Scorer, Scorer], comparison: Comparison
) -> None:
    groups = [group for group in batch if len(group.before) >= 2]
    if groups:
        kept = sides[0].keep([group.view(group.before) for group in groups])
        kept_after = sides[1].keep([group.view(group.after) for group in groups])
        for group, old, new in zip(groups, kept, kept_after, strict=True):
            comparison.add_group(group, old, new)
    batch.clear()
