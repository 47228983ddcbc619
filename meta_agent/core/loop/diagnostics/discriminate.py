"""Judges a new diagnostic: does its number separate good past versions from bad ones?

The diagnostic reads the stored rollouts of past versions; nothing is trained. Its number must also
separate versions that its author did not see (`_past.split_past`). The error is divided by the
count of the numbers that were judged up to it.

An admission is outside the run's error budget on purpose. That budget is for claims that a harness
is better, and a diagnostic changes no attempt, no reward and no verdict. A wrong one costs
attention until `tend` retires it. In simulations with 12 to 24 past versions, a meaningless number
was admitted in 0.05 to 0.25 % of cases, and the best of ten such numbers in 1 to 3 %.

Not covered: the rule itself (`gate.judge_diagnostics`). It needs more versions than a first run
has; until then the answer is INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import judge_diagnostics, verdict_from_json, verdict_to_json
from meta_agent.core.gate.diagnostics import ALPHA
from meta_agent.core.lab.fair import fairly
from meta_agent.core.loop.diagnostics._past import number_of, past_versions, readings, split_past
from meta_agent.core.loop.records import Judged, Tested, failure, stopped
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Verdict

KIND: Final = "discrimination"
LOOKED_AT: Final[Mapping[str, int]] = {"explain-gap": 11}
"""Maps a rule of earlier versions to how many numbers it compared. Their verdicts rest on it."""


def discriminate(run: Run, tested: Tested) -> Judged:
    """Returns the verdict on a new diagnostic: does its number tell good past versions from bad?"""
    candidate = tested.candidate
    run.phase("judge", f"{candidate.id}: does it tell good past versions from bad ones?")

    def discrimination() -> JSON:
        return {"candidate": candidate.id, "verdict": verdict_to_json(_verdict(run, tested))}

    outcome = run.once(
        f"{candidate.id}/discriminate", KIND, {"commit": candidate.commit}, discrimination
    )
    return Judged(verdict_from_json(outcome["verdict"]))


def _verdict(run: Run, tested: Tested) -> Verdict:
    try:
        return fairly(lambda: _judged(run, tested))
    except CandidateError as error:
        return stopped((failure(error), *tested.findings)).verdict


def _judged(run: Run, tested: Tested) -> Verdict:
    candidate = tested.candidate
    parts = split_past(run, past_versions(run), run.repo.tree(candidate.base))
    with run.lab.session(run.repo.tree(candidate.commit)) as session:
        number = number_of(session, candidate.hypothesis.metric)
        in_sample, held_out = (readings(run, session, number, part) for part in parts)
    return judge_diagnostics(
        in_sample.good,
        in_sample.bad,
        heldout_good=held_out.good,
        heldout_bad=held_out.bad,
        threshold=number.threshold,
        higher_is_bad=number.higher_is_bad,
        alpha=ALPHA / (LOOKED_AT.get(candidate.hypothesis.rule, 1) + _read_before(run)),
    )


def _read_before(run: Run) -> int:
    """Returns how many numbers were judged in this workspace before, whatever the verdict."""
    steps = run.ledger.steps(kind=KIND)
    outcomes: list[Mapping[str, JSON]] = [step.fields for step in steps if step.is_done]
    return sum(bool(outcome["verdict"]["evidence"].get("numbers")) for outcome in outcomes)
