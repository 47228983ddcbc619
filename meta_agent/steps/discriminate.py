"""judge, for diagnostics: does the new number tell good past versions from bad ones?

A past version is a candidate that any run of this workspace measured: good if it was promoted, bad
if it was rejected or INVALID. The new diagnostic reads their stored rollouts; nothing is trained.
Every third version of either kind is held out.

Not covered: the rule itself (`gate.judge_diagnostics`), which asks for more versions than a first
run has: until then the answer is INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from meta_agent.backtest.fair import fairly
from meta_agent.backtest.live import ArmRef
from meta_agent.errors import CandidateError
from meta_agent.gate import judge_diagnostics, verdict_from_json, verdict_to_json
from meta_agent.harness import HarnessSession, Measurement
from meta_agent.protocols import JSON, Rollout, Verdict, VerdictKind
from meta_agent.steps.run import Judged, Run, Tested, failure, machines_failed, stopped

HOLD_OUT_EVERY = 3
MAX_LIMIT = 1e9
SIDES = ("above", "below")


def discriminate(run: Run, tested: Tested) -> Judged:
    """Judges a diagnostics candidate on the past versions of the workspace."""
    candidate = tested.candidate
    run.phase("judge", f"{candidate.id}: does it tell good past versions from bad ones?")
    outcome = run.once(
        f"{candidate.id}/discriminate",
        "discrimination",
        {"commit": candidate.commit},
        lambda: {"candidate": candidate.id, "verdict": verdict_to_json(_verdict(run, tested))},
    )
    return Judged(verdict_from_json(outcome["verdict"]))


class _Number(NamedTuple):
    """The number that the hypothesis is about, and when its author finds it bad."""

    diagnostic: str
    value: str
    threshold: float
    higher_is_bad: bool


def _verdict(run: Run, tested: Tested) -> Verdict:
    try:
        return fairly(lambda: _judged(run, tested))
    except CandidateError as error:
        return stopped((failure(error), *tested.findings)).verdict


def _judged(run: Run, tested: Tested) -> Verdict:
    past = list(_past(run))
    with run.lab.session(run.repo.tree(tested.candidate.commit)) as session:
        number = _number(session, tested.candidate.hypothesis.metric)
        good, bad = (_values(run, session, number, past, kind) for kind in (True, False))
    return judge_diagnostics(
        _kept(good),
        _kept(bad),
        heldout_good=good[HOLD_OUT_EVERY - 1 :: HOLD_OUT_EVERY],
        heldout_bad=bad[HOLD_OUT_EVERY - 1 :: HOLD_OUT_EVERY],
        threshold=number.threshold,
        higher_is_bad=number.higher_is_bad,
    )


def _past(run: Run) -> Iterator[tuple[bool, JSON]]:
    """Whether it was good, and the rollouts of its first training seed, oldest version first."""
    good = {VerdictKind.PROMOTE: True, VerdictKind.REJECT: False, VerdictKind.INVALID: False}
    for step in run.ledger.steps(kind="verdict"):
        told = step.outcome
        if not step.done or not told["arms"] or machines_failed(told["evidence"]):
            continue
        if (kind := VerdictKind(told["kind"])) in good:
            shards = ArmRef.from_json(told["arms"][1]).shards
            yield good[kind], shards[min(shards)]


def _number(session: HarnessSession, metric: str) -> _Number:
    """`measured.NAME.VALUE`, with the limit that the diagnostic itself declares for it."""
    diagnostic, _, value = metric.removeprefix("measured.").partition(".")
    declared = _reading(session, diagnostic, ()).thresholds.get(value)
    limit = declared.get("warn") if isinstance(declared, Mapping) else None
    side = declared.get("direction") if isinstance(declared, Mapping) else None
    # Untrusted: also NaN and 10**400 are numbers.
    if not (isinstance(limit, int | float) and abs(limit) <= MAX_LIMIT and side in SIDES):
        raise CandidateError(
            f"{diagnostic} declares no limit for {value!r}: THRESHOLDS needs "
            '{"warn": number up to 1e9, "direction": "above" or "below"}',
            reason="no_threshold",
        )
    return _Number(diagnostic, value, float(limit), side == "above")


def _reading(session: HarnessSession, name: str, rollouts: Sequence[Rollout]) -> Measurement:
    found = next((one for one in session.measure(rollouts) if one.name == name), None)
    if found is None:
        raise CandidateError(f"no diagnostic is named {name!r}", reason="no_diagnostic")
    return found


def _values(
    run: Run,
    session: HarnessSession,
    number: _Number,
    past: Sequence[tuple[bool, JSON]],
    good: bool,
) -> list[float]:
    """The number on each version; one that it could not be read on is left out."""
    shards = [shard for kind, shard in past if kind is good]
    readings = (_reading(session, number.diagnostic, run.lab.rollouts(s)) for s in shards)
    return [found.values[number.value] for found in readings if number.value in found.values]


def _kept(values: Sequence[float]) -> list[float]:
    return [value for at, value in enumerate(values, start=1) if at % HOLD_OUT_EVERY]
