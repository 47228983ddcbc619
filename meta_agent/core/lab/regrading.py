"""Keeps summaries of stored rollouts, and grades some of the attempts again.

Records are streamed: each is read once and its text dropped. Some attempts are drawn to be graded
again: the first `DRAWN` by the hash of their name, the solved ones first, since a forged success is
what pays. The draw is the same however the records are split into files.

Not covered: what a second grading says of a comparison (`core.gate`).
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from meta_agent.core.gate import Look, Regraded, look_of
from meta_agent.core.ledger.waiting import moved, waiting
from meta_agent.core.protocols import JSON, Outcome, Rollout

DRAWN: Final = 64
"""The largest number of stored attempts that are graded again."""
_SOLVED_SHARE: Final = 0.75
_LIMIT_SEC: Final = 1800.0
"""A grading of a real repository on a busy machine takes less."""
Grade = Callable[[str, Mapping[str, JSON]], Outcome | None]
"""Grades a stored attempt again, given its task key and inputs. Returns None if it cannot."""


class Drawn(NamedTuple):
    """A stored outcome, with the inputs that the grader needs to compute it again."""

    rank: bytes  # a hash of the name: the attempts with the lowest are drawn
    name: str
    task_key: str
    outcome: bool
    inputs: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Records:
    """Summaries of rollouts (`looks`), and the attempts drawn at random to be graded again."""

    looks: tuple[Look, ...] = ()
    drawn: tuple[Drawn, ...] = ()


def records_of(rollouts: Iterable[Rollout], views: Mapping[str, str] | None = None) -> Records:
    """Returns the summaries of rollouts. `views` maps task keys to the text that an agent reads."""
    looks: list[Look] = []
    drawn: list[Drawn] = []
    for rollout in rollouts:
        look = look_of(rollout, (views or {}).get(rollout.task_key))
        looks.append(look)
        if rollout.outcome is not None and rollout.verifier_inputs:
            rank = hashlib.blake2b(look.name.encode(), digest_size=8).digest()
            inputs = dict(rollout.verifier_inputs)
            drawn.append(Drawn(rank, look.name, look.task_key, rollout.outcome, inputs))
        if len(drawn) >= 6 * DRAWN:
            drawn = _draw(drawn)
    return Records(tuple(looks), tuple(_draw(drawn)))


def merged(parts: Sequence[Records]) -> Records:
    """Returns the summaries of several files as if all rollouts had been read from one file."""
    looks = tuple(look for part in parts for look in part.looks)
    return Records(looks, tuple(_draw([drawn for part in parts for drawn in part.drawn])))


def _draw(attempts: Sequence[Drawn]) -> list[Drawn]:
    # Enough of both kinds is kept of every part that a merge finds the first of the whole.
    return [
        attempt
        for outcome in (True, False)
        for attempt in heapq.nsmallest(
            DRAWN,
            (each for each in attempts if each.outcome is outcome),
            key=lambda each: each.rank,
        )
    ]


def regraded(records: Records, grade: Grade | None, at_most: int = DRAWN) -> tuple[Regraded, ...]:
    """Grades up to `at_most` of the drawn attempts again, three quarters of them solved ones.

    Where there are fewer of one kind, more of the other are graded. Attempts that `grade` cannot
    grade are left out. Without `grade`, returns ().
    """
    solved = [attempt for attempt in records.drawn if attempt.outcome]
    failed = [attempt for attempt in records.drawn if not attempt.outcome]
    solved = solved[: max(int(at_most * _SOLVED_SHARE), at_most - len(failed))]
    attempts = [*solved, *failed[: at_most - len(solved)]]
    results: list[Regraded] = []
    if grade is None:
        return ()
    with waiting(
        "grader",
        f"{len(attempts)} stored attempts that are graded again",
        limit_sec=_LIMIT_SEC,
        advice="A comparison counts if the grader says again what it said. Nothing is lost if the "
        "run is stopped here.",
    ):
        for number, drawn in enumerate(attempts, 1):
            outcome = grade(drawn.task_key, drawn.inputs)
            if outcome is not None:
                confirmed = outcome.success == drawn.outcome
                results.append(Regraded(drawn.name, drawn.task_key, drawn.outcome, confirmed))
            moved(f"{number} of {len(attempts)} graded again")
    return tuple(results)
