"""Past versions, for diagnostics to be judged by: who was good, who was bad, and who is held out.

A past version is a candidate that any run of this workspace measured: good if it was promoted, bad
if it was rejected or INVALID. Pooled over the runs of a workspace, oldest first.

Held out is every third of either kind, and never the version whose rollouts the author of a
diagnostic was shown: that one he wrote from.

Not covered: that versions which were stopped early were measured on the search split, the others on
the confirm split. Both are drawn alike; a number that tells splits apart would profit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import HarnessSession, Measurement
from meta_agent.core.lab.arms import ArmRef, behaviour_hash
from meta_agent.core.loop.records import BY_SCORE, machines_failed
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, HarnessTree, Rollout, VerdictKind

HOLD_OUT_EVERY: Final = 3
MAX_LIMIT: Final = 1e9
SIDES: Final = ("above", "below")
_GOOD: Final = {VerdictKind.PROMOTE: True, VerdictKind.REJECT: False, VerdictKind.INVALID: False}


class PastVersion(NamedTuple):
    """A version with a verdict, and the rollouts of its first training seed."""

    good: bool
    shard: JSON
    commit: str
    seq: int  # when its verdict was recorded, as the ledger counts


class Number(NamedTuple):
    """A number that a diagnostic measures, and when its author finds it bad."""

    diagnostic: str
    value: str
    threshold: float
    higher_is_bad: bool


class Readings(NamedTuple):
    """A number on good and on bad versions."""

    good: tuple[float, ...]
    bad: tuple[float, ...]


def past_versions(run: Run, *, after: int = 0) -> list[PastVersion]:
    """Those whose verdict was recorded later than step `after`, each once.

    Members of one bundle share its attempts; where they were judged differently, those are neither
    good nor bad.
    """
    found: dict[str, list[PastVersion]] = {}
    for one in _recorded(run):
        if one.seq > after:
            found.setdefault(json.dumps(one.shard, sort_keys=True), []).append(one)
    return [same[0] for same in found.values() if len({one.good for one in same}) == 1]


def _recorded(run: Run) -> Iterator[PastVersion]:
    for step in run.ledger.steps(kind="verdict"):
        told: Mapping[str, JSON] = step.fields
        if not step.is_done or not told["arms"] or machines_failed(told["evidence"]):
            continue
        if told["evidence"].get("judge") == BY_SCORE:
            continue  # kept or dropped by a raw score: nobody knows which it was
        if (kind := VerdictKind(told["kind"])) in _GOOD:
            shards = ArmRef.from_json(told["arms"][1]).shards
            yield PastVersion(
                _GOOD[kind], shards[min(shards)], str(told.get("commit", "")), step.seq
            )


def split_past(
    run: Run, past: Sequence[PastVersion], shown: HarnessTree
) -> tuple[list[PastVersion], list[PastVersion]]:
    """Those to write from and those held out, for an author who was shown the version `shown`."""
    seen, kept, held = behaviour_hash(shown), list[PastVersion](), list[PastVersion]()
    counts = {True: 0, False: 0}
    for one in past:
        counts[one.good] += 1
        third = counts[one.good] % HOLD_OUT_EVERY == 0
        (held if third and _behaviour(run, one) != seen else kept).append(one)
    return kept, held


def _behaviour(run: Run, version: PastVersion) -> str | None:
    if not version.commit or run.repo.tip(version.commit) is None:
        return None
    return behaviour_hash(run.repo.tree(version.commit))


def number_of(session: HarnessSession, metric: str) -> Number:
    """`measured.NAME.VALUE`, with the limit that the diagnostic itself declares for it."""
    diagnostic, _, value = metric.removeprefix("measured.").partition(".")
    declared = _measured(session, diagnostic, ()).thresholds.get(value)
    limit = declared.get("warn") if isinstance(declared, Mapping) else None
    side = declared.get("direction") if isinstance(declared, Mapping) else None
    # Untrusted: also NaN and 10**400 are numbers.
    if not (isinstance(limit, int | float) and abs(limit) <= MAX_LIMIT and side in SIDES):
        raise CandidateError(
            f"{diagnostic} declares no limit for {value!r}: THRESHOLDS needs "
            '{"warn": number up to 1e9, "direction": "above" or "below"}',
            reason="no_threshold",
        )
    return Number(diagnostic, value, float(limit), side == "above")


def _measured(session: HarnessSession, name: str, rollouts: Sequence[Rollout]) -> Measurement:
    found = next((one for one in session.measure(rollouts) if one.name == name), None)
    if found is None:
        raise CandidateError(f"no diagnostic is named {name!r}", reason="no_diagnostic")
    return found


def readings(
    run: Run, session: HarnessSession, number: Number, past: Sequence[PastVersion]
) -> Readings:
    """The number on each version; one that it could not be read on is left out."""
    values: dict[bool, list[float]] = {True: [], False: []}
    for one in past:
        found = _measured(session, number.diagnostic, run.lab.rollouts(one.shard))
        if number.value in found.values:
            values[one.good].append(found.values[number.value])
    return Readings(tuple(values[True]), tuple(values[False]))
