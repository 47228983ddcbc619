"""Summarises rollout records for the detectors that read records, a few hundred bytes for each.

Records are long (a real agent's is 100 kB) and two arms hold thousands. So they are streamed: each
is read once and its text dropped. Some attempts are drawn to be graded again: the first `DRAWN` by
the hash of their name, the solved ones first, since a forged success is what pays. The draw is the
same however the records are split into files.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from meta_agent.core.gate.validity._transcripts import traces
from meta_agent.core.protocols import JSON, Rollout

DRAWN: Final = 64
"""The largest number of stored attempts that are graded again."""
_SOLVED_SHARE: Final = 0.75
_KINDS: Final = {
    "copied": "copied_answer",
    "forgery": "forgery",
    "always-equal": "always_equal",
    "special-case": "special_case",
}


@dataclass(frozen=True, slots=True)
class Look:
    """The summary of one rollout's record: the facts that the validity checks compare."""

    name: str
    task_key: str
    outcome: bool | None
    conduct: tuple[tuple[str, str], ...]  # code, and the words that show it
    submission: bytes  # digest of what was graded; empty where nothing was
    attempt: bytes  # digest of all that a reward may depend on; empty without a reward
    reward: float
    turns: int
    calls: int
    flagged: bool = False


@dataclass(frozen=True, slots=True)
class Graded:
    """A stored outcome, with the inputs that the grader needs to compute it again."""

    rank: bytes  # a hash of the name: the attempts with the lowest are drawn
    name: str
    task_key: str
    outcome: bool
    inputs: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Seen:
    """Summaries of rollouts (`looks`), and the attempts drawn at random to be graded again."""

    looks: tuple[Look, ...] = ()
    drawn: tuple[Graded, ...] = ()


def seen_of(rollouts: Iterable[Rollout], views: Mapping[str, str] | None = None) -> Seen:
    """Returns the summaries of rollouts. `views` maps task keys to the text that an agent reads."""
    looks: list[Look] = []
    drawn: tuple[Graded, ...] = ()
    batch: list[Graded] = []
    for rollout in rollouts:
        looks.append(_look(rollout, (views or {}).get(rollout.task_key)))
        if rollout.outcome is not None and rollout.verifier_inputs:
            batch.append(_graded(rollout))
        if len(batch) >= 4 * DRAWN:
            drawn, batch = _draw([*drawn, *batch]), []
    return Seen(tuple(looks), _draw([*drawn, *batch]))


def merged(parts: Sequence[Seen]) -> Seen:
    """Returns the summaries of several files as if all rollouts had been read from one file."""
    looks = tuple(look for part in parts for look in part.looks)
    return Seen(looks, _draw([graded for part in parts for graded in part.drawn]))


def _draw(graded: Sequence[Graded]) -> tuple[Graded, ...]:
    # Enough of both kinds is kept of every part that a merge finds the first of the whole.
    sides = [[attempt for attempt in graded if attempt.outcome is kind] for kind in (True, False)]
    best = [heapq.nsmallest(DRAWN, side, key=lambda attempt: attempt.rank) for side in sides]
    return (*best[0], *best[1])


def to_regrade(records: Seen, at_most: int = DRAWN) -> list[Graded]:
    """Returns up to `at_most` of the drawn attempts, three quarters of them solved if possible."""
    solved = [attempt for attempt in records.drawn if attempt.outcome]
    failed = [attempt for attempt in records.drawn if not attempt.outcome]
    solved_count = max(int(at_most * _SOLVED_SHARE), at_most - len(failed))
    return [*solved[:solved_count], *failed[: max(0, at_most - min(solved_count, len(solved)))]]


def _look(rollout: Rollout, view: str | None) -> Look:
    return Look(
        name=name_of(rollout),
        task_key=rollout.task_key,
        outcome=rollout.outcome,
        conduct=_conduct(rollout, view) if rollout.outcome else (),
        submission=_submission(rollout),
        attempt=_attempt(rollout),
        reward=round(rollout.total_reward, 9),
        turns=rollout.turns,
        calls=len(rollout.tool_events),
        flagged=bool(rollout.flags),
    )


def name_of(rollout: Rollout) -> str:
    """Returns the name of a rollout in validity findings: its task, sample and seed."""
    return f"{rollout.task_key} sample {rollout.sample_idx} seed {rollout.seed}"


def _conduct(rollout: Rollout, view: str | None) -> tuple[tuple[str, str], ...]:
    trace_by_code = {_KINDS[t.kind.partition(":")[0]]: t for t in reversed(traces(rollout, view))}
    return tuple((code, f"{trace.kind}: {trace.shown_by}") for code, trace in trace_by_code.items())


def _submission(rollout: Rollout) -> bytes:
    if rollout.outcome is None or not rollout.verifier_inputs:
        return b""
    return _digest([rollout.task_key, rollout.verifier_inputs])


def _attempt(rollout: Rollout) -> bytes:
    """Returns a digest that is equal for attempts with the same messages and the same ending."""
    if not (rollout.rewards and rollout.messages):
        return b""
    ending = [rollout.outcome, rollout.stop_reason, rollout.turns, *rollout.flags]
    return _digest([rollout.task_key, rollout.messages, ending])


def _digest(value: JSON) -> bytes:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _graded(rollout: Rollout) -> Graded:
    name = name_of(rollout)
    rank = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return Graded(
        rank, name, rollout.task_key, bool(rollout.outcome), dict(rollout.verifier_inputs)
    )
