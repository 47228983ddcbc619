"""Judges a new diagnostic: does its number foretell clean success, and more than others do?

The diagnostic reads stored attempts of this run; nothing is trained. What counts are attempts at
tasks that its author did not see (`_attempts`). The error is divided by the count of the numbers
that were judged up to it, in all runs of the workspace.

An admission is outside the run's error budget on purpose. That budget is for claims that a harness
is better, and a diagnostic changes no attempt, no reward and no verdict. A wrong one costs
attention until `tend` retires it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from meta_agent.core.errors import CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import judge_diagnostics, verdict_from_json, verdict_to_json
from meta_agent.core.gate.diagnostics import ALPHA
from meta_agent.core.lab.fair import fairly
from meta_agent.core.loop.diagnostics._attempts import number_of, readings, telling_groups
from meta_agent.core.loop.records import Judged, Tested, failure, stopped
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Verdict, VerdictKind
from meta_agent.core.task_splits import is_shown

KIND: Final = "discrimination"


def discriminate(run: Run, tested: Tested) -> Judged:
    """Returns the verdict on a new diagnostic: does it foretell clean success within tasks?"""
    candidate = tested.candidate
    run.phase("judge", f"{candidate.id}: does it foretell clean success?")

    def discrimination() -> JSON:
        verdict = verdict_to_json(_verdict(run, tested))
        return {
            "candidate": candidate.id,
            "metric": candidate.hypothesis.metric,
            "verdict": verdict,
        }

    outcome = run.once(
        f"{candidate.id}/discriminate", KIND, {"commit": candidate.commit}, discrimination
    )
    run.note(f"{candidate.id}: {outcome['verdict']['reasons'][0]}")
    return Judged(verdict_from_json(outcome["verdict"]))


def with_admitted(run: Run, evidence: Evidence) -> Evidence:
    """Returns the evidence, which now says which of its metrics the workspace admitted."""
    aucs = {
        row["metric"]: row["verdict"]["evidence"]["numbers"]["auc"]
        for row in _judged_numbers(run)
        if row["verdict"]["kind"] == VerdictKind.PROMOTE
    }
    foretells = {
        name: (auc["estimate"], auc["low"], auc["high"])
        for name, auc in aucs.items()
        if evidence.metric(name) is not None
    }
    return replace(evidence, foretells=foretells)


def _verdict(run: Run, tested: Tested) -> Verdict:
    try:
        return fairly(lambda: _judged(run, tested))
    except CandidateError as error:
        return stopped((failure(error), *tested.findings)).verdict


def _judged(run: Run, tested: Tested) -> Verdict:
    candidate, groups = tested.candidate, telling_groups(run, of_run=run.id)
    with run.lab.session(run.repo.tree(candidate.commit)) as session:
        number = number_of(session, candidate.hypothesis.metric)
        attempts = readings(run, session, number, groups)
    readable = [attempt for attempt in attempts if is_shown(attempt.task)]
    held_out = [attempt for attempt in attempts if not is_shown(attempt.task)]
    before = sum(1 for _ in _judged_numbers(run))
    return judge_diagnostics(readable, held_out, alpha=ALPHA / (1 + before))


def _judged_numbers(run: Run) -> Iterator[Mapping[str, JSON]]:
    """Yields the records of all numbers that were judged in this workspace, whatever came of it."""
    for step in run.ledger.steps(kind=KIND):
        record: Mapping[str, JSON] = step.fields
        if step.is_done and record["verdict"]["evidence"].get("numbers"):
            yield record
