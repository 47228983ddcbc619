"""The checks of a generation's ideas that cost no training, and what they decide.

A veto stops an idea here. Diagnostics change no attempt: they are judged on past versions
(`discriminate`). Every other idea may be trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.loop.budget import cells_left
from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.records import Collected, Judged, Tested, failure, stopped
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.collect import rolled_out_untrained
from meta_agent.core.loop.verbs.test import test
from meta_agent.core.protocols import Candidate, VerdictKind


class Checked(NamedTuple):
    """A generation's candidates after their checks: ideas to train, and verdicts on the others."""

    ideas: list[Candidate]
    judged: dict[str, Judged]
    admitted: list[Candidate]
    tested: dict[str, Tested]


def check(
    run: Run, collected: Collected, generation: int, candidates: Sequence[Candidate]
) -> Checked:
    """Checks candidates before anything is trained; returns the ideas to train and the verdicts.

    A scaffold is also tried with the base policy, if the budget still pays for a training then.
    """
    tested = {candidate.id: test(run, collected, candidate) for candidate in candidates}
    checked = Checked([], {}, [], tested)
    scaffolds = [
        candidate
        for candidate in candidates
        if candidate.factor == "scaffold" and not tested[candidate.id].vetoed
    ]
    looks = len(scaffolds) * run.plan.search
    affordable = cells_left(run, collected.tree, looks, later=generation > 0)
    for candidate in candidates:
        outcome = tested[candidate.id]
        if affordable and not outcome.vetoed and not outcome.watches:
            outcome = tested[candidate.id] = _with_conduct(run, collected, outcome)
        if outcome.vetoed:
            checked.judged[candidate.id] = stopped(outcome.findings)
        elif outcome.watches:
            judged = checked.judged[candidate.id] = discriminate(run, outcome)
            if judged.verdict.kind is VerdictKind.PROMOTE:
                checked.admitted.append(candidate)
        else:
            checked.ideas.append(candidate)
    return checked


def _with_conduct(run: Run, collected: Collected, tested: Tested) -> Tested:
    """Adds vetoes that the base policy earns under a scaffold and not under the version."""
    before = collected.untrained
    if tested.candidate.factor != "scaffold" or before is None:
        return tested
    tree, lab = run.repo.tree(tested.candidate.commit), run.lab
    try:
        after = rolled_out_untrained(run, tree)
    except CandidateError as error:
        return tested._replace(findings=(*tested.findings, failure(error)))
    refs = (
        lab.arm_of("baseline", collected.tree, {0: before}),
        lab.arm_of(tested.candidate.id, tree, {0: after}),
    )
    findings = lab.inspector.between(refs)
    new = (f for f in findings if f.severity == "veto" and f.side != "baseline")
    return tested._replace(findings=(*tested.findings, *new))
