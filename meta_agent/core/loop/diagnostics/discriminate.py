"""judge, for diagnostics: does the new number tell good past versions from bad ones?

The new diagnostic reads the stored rollouts of past versions; nothing is trained. It has to do so
as well on versions that it was not written from (`_past.split_past`). A number that was picked out
of a library pays for all that were looked at: its error is divided by their count, and by that of
all numbers that were read on this workspace's versions before it.

An admission is outside the run's error budget, on purpose: that budget is for claims that a harness
is better, and a diagnostic changes no attempt, no reward and no verdict. What a wrong one costs is
attention, until `tend` retires it. Its own error is bounded by the rule: a number that means
nothing was admitted in 0.05 to 0.25 % of simulated cases (12 to 24 past versions), the best of ten
such numbers in 1 to 3 %.

Not covered: the rule itself (`gate.judge_diagnostics`), which asks for more versions than a first
run has: until then the answer is INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from meta_agent.core.diagnostic_library import EXPLAIN_GAP, LIBRARY
from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import judge_diagnostics, verdict_from_json, verdict_to_json
from meta_agent.core.gate.diagnostics import ALPHA
from meta_agent.core.lab.fair import fairly
from meta_agent.core.loop.diagnostics._past import number_of, past_versions, readings, split_past
from meta_agent.core.loop.records import Judged, Tested, failure, stopped
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Verdict

KIND: Final = "discrimination"
LOOKED_AT: Final[Mapping[str, int]] = {EXPLAIN_GAP: len(LIBRARY)}
"""By rule, how many numbers were compared to find the proposed one."""


def discriminate(run: Run, tested: Tested) -> Judged:
    """Judges a diagnostics candidate on the past versions of the workspace."""
    candidate = tested.candidate
    run.phase("judge", f"{candidate.id}: does it tell good past versions from bad ones?")

    def told() -> JSON:
        return {"candidate": candidate.id, "verdict": verdict_to_json(_verdict(run, tested))}

    outcome = run.once(f"{candidate.id}/discriminate", KIND, {"commit": candidate.commit}, told)
    return Judged(verdict_from_json(outcome["verdict"]))


def _verdict(run: Run, tested: Tested) -> Verdict:
    try:
        return fairly(lambda: _judged(run, tested))
    except CandidateError as error:
        return stopped((failure(error), *tested.findings)).verdict


def _judged(run: Run, tested: Tested) -> Verdict:
    candidate = tested.candidate
    kept, held = split_past(run, past_versions(run), run.repo.tree(candidate.base))
    with run.lab.session(run.repo.tree(candidate.commit)) as session:
        number = number_of(session, candidate.hypothesis.metric)
        seen, unseen = (readings(run, session, number, part) for part in (kept, held))
    return judge_diagnostics(
        seen.good,
        seen.bad,
        heldout_good=unseen.good,
        heldout_bad=unseen.bad,
        threshold=number.threshold,
        higher_is_bad=number.higher_is_bad,
        alpha=ALPHA / (LOOKED_AT.get(candidate.hypothesis.rule, 1) + _read_before(run)),
    )


def _read_before(run: Run) -> int:
    """Numbers that were read on past versions of this workspace before, whatever came of it."""
    steps = run.ledger.steps(kind=KIND)
    every: list[Mapping[str, JSON]] = [step.fields for step in steps if step.is_done]
    return sum(bool(told["verdict"]["evidence"].get("numbers")) for told in every)
