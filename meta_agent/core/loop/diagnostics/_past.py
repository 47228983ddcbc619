"""Past versions that diagnostics are judged on: good ones, bad ones, and which are held out.

A past version is a candidate that any run of this workspace measured. It is good if it was
promoted, and bad if it was rejected or INVALID. The versions of all runs are pooled, oldest first.

Every third good version and every third bad one is held out. The version whose rollouts the author
of a diagnostic saw is never held out.

Not covered: versions that were stopped early were measured on the search split, the others on the
confirm split. Both are drawn alike, but a number that separates the splits would profit.
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
    """A version with a verdict, and a reference to its rollouts of the first training seed.

    It is `good` if it was promoted, and bad if it was rejected or INVALID.
    """

    good: bool
    shard: JSON
    commit: str
    seq: int  # of its verdict in the ledger


class Number(NamedTuple):
    """A number that a diagnostic measures: its name, its threshold, and which side of it is bad."""

    diagnostic: str
    value: str
    threshold: float
    higher_is_bad: bool


class Readings(NamedTuple):
    """The values of one diagnostic's number on good and on bad past versions of the harness."""

    good: tuple[float, ...]
    bad: tuple[float, ...]


def past_versions(run: Run, *, after: int = 0) -> list[PastVersion]:
    """Returns the versions whose verdict the ledger recorded after its step number `after`.

    Versions that were trained together share their rollouts, and count once. If their verdicts
    differ, they are left out.
    """
    by_attempts: dict[str, list[PastVersion]] = {}
    for version in _recorded(run):
        if version.seq > after:
            by_attempts.setdefault(json.dumps(version.shard, sort_keys=True), []).append(version)
    groups = by_attempts.values()
    return [group[0] for group in groups if len({version.good for version in group}) == 1]


def _recorded(run: Run) -> Iterator[PastVersion]:
    for step in run.ledger.steps(kind="verdict"):
        verdict: Mapping[str, JSON] = step.fields
        if not step.is_done or not verdict["arms"] or machines_failed(verdict["evidence"]):
            continue
        if verdict["evidence"].get("judge") == BY_SCORE:
            continue  # judged by a raw score, which proves neither good nor bad
        if (kind := VerdictKind(verdict["kind"])) in _GOOD:
            shards = ArmRef.from_json(verdict["arms"][1]).shards
            yield PastVersion(
                _GOOD[kind], shards[min(shards)], str(verdict.get("commit", "")), step.seq
            )


def split_past(
    run: Run, past: Sequence[PastVersion], base: HarnessTree
) -> tuple[list[PastVersion], list[PastVersion]]:
    """Returns the (in-sample, held-out) past versions on which a diagnostic is judged.

    Every third good and every third bad one is held out, but never the version `base`, whose
    rollouts the diagnostic's author saw.
    """
    in_sample, held_out = list[PastVersion](), list[PastVersion]()
    base_behaviour = behaviour_hash(base)
    counts = {True: 0, False: 0}
    for version in past:
        counts[version.good] += 1
        third = counts[version.good] % HOLD_OUT_EVERY == 0
        hold_out = third and _behaviour(run, version) != base_behaviour
        (held_out if hold_out else in_sample).append(version)
    return in_sample, held_out


def _behaviour(run: Run, version: PastVersion) -> str | None:
    if not version.commit or run.repo.tip(version.commit) is None:
        return None
    return behaviour_hash(run.repo.tree(version.commit))


def number_of(session: HarnessSession, metric: str) -> Number:
    """Returns the number that `metric` names, in the form `measured.DIAGNOSTIC.VALUE`.

    Raises CandidateError if the harness lacks the diagnostic, or its threshold for this value.
    """
    diagnostic, _, value = metric.removeprefix("measured.").partition(".")
    declared = _measured(session, diagnostic, ()).thresholds.get(value)
    limit = declared.get("warn") if isinstance(declared, Mapping) else None
    side = declared.get("direction") if isinstance(declared, Mapping) else None
    # The value is untrusted: NaN and 10**400 are numbers too.
    if not (isinstance(limit, int | float) and abs(limit) <= MAX_LIMIT and side in SIDES):
        raise CandidateError(
            f"{diagnostic} declares no limit for {value!r}: add to its THRESHOLDS "
            '{"warn": number up to 1e9, "direction": "above" or "below"}',
            reason="no_threshold",
        )
    return Number(diagnostic, value, float(limit), side == "above")


def _measured(session: HarnessSession, name: str, rollouts: Sequence[Rollout]) -> Measurement:
    for measurement in session.measure(rollouts):
        if measurement.name == name:
            return measurement
    message = (
        f"the harness has no diagnostic named {name!r}: a diagnostic's file has to set NAME to it"
    )
    raise CandidateError(message, reason="no_diagnostic")


def readings(
    run: Run, session: HarnessSession, number: Number, past: Sequence[PastVersion]
) -> Readings:
    """Returns a diagnostic's number on the stored rollouts of good and of bad past versions."""
    values: dict[bool, list[float]] = {True: [], False: []}
    for version in past:
        measurement = _measured(session, number.diagnostic, run.lab.rollouts(version.shard))
        if number.value in measurement.values:
            values[version.good].append(measurement.values[number.value])
    return Readings(tuple(values[True]), tuple(values[False]))
