"""`score-only`: keep a change if the score on the search split went up, else forget it.

How autoresearch goes about it, and hence the rival of a gate: one training seed, the very tasks
that the proposer saw, raw success, no validity detectors and no statistics. A candidate that does
not run is out, as there. What it promotes is looked at afterwards by others (`arms`). It goes on
until its budget is spent or nobody has an idea.

Its verdicts prove nothing, so no skill is made of them (`proven`).
"""

from __future__ import annotations

from meta_agent.core.errors import BudgetError, CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Arm
from meta_agent.core.gate.judge import arm_summary
from meta_agent.core.lab.live import ArmRef, Job
from meta_agent.core.loop.budget import one_cell, pays_for
from meta_agent.core.loop.records import (
    BY_SCORE,
    Collected,
    HandedOver,
    Judged,
    Tested,
    Version,
    failure,
    stopped,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.cells import merge_terms
from meta_agent.core.loop.verbs.collect import collect, read
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.propose import propose
from meta_agent.core.loop.verbs.test import test
from meta_agent.core.protocols import JSON, Candidate, Verdict, VerdictKind


class ScoreOnly:
    """Keep if better, else reset."""

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        version, evidence = first, None
        try:
            for generation in range(run.config.generations):
                after = _generation(run, version, generation, evidence)
                if after is None:
                    break
                version, evidence = after
        except BudgetError as reached:
            if run.config.budget is None:
                raise
            run.note(f"no further candidate: {reached}")
        trained = run.lab.train(run.repo.tree(version.commit), seed=0, steps=run.plan.steps)
        kept = version.commit != first.commit
        words = "kept by its score alone"
        return HandedOver(version, trained, "unproven" if kept else "start", words)


def _generation(
    run: Run, version: Version, generation: int, earlier: Evidence | None
) -> tuple[Version, Evidence] | None:
    """One change, kept or forgotten; None where there is none, or nothing left to try it with."""
    if not pays_for(run, f"g{generation}", attempts=_price(run, version)):
        return None
    collected = collect(run, version)
    reading = read(run, collected, generation, earlier)
    proposed = propose(run, collected, reading._replace(findings=()), generation)[:1]
    if not proposed:
        return None
    (candidate,) = proposed
    judged = _judged(run, collected, test(run, collected, candidate))
    conclude(run, collected, candidate, judged, reading)
    if judged.verdict.kind is VerdictKind.PROMOTE:
        version = _kept(run, version, candidate)
    return version, reading.evidence


def _price(run: Run, version: Version) -> int:
    """A candidate's training, and what the version itself still takes, read untrained too."""
    tree, plan = run.repo.tree(version.commit), run.plan
    each = one_cell(plan, tree)
    known = run.lab.trained(Job(tree, 0, plan.steps, "search", plan.search))
    return each + plan.search + (0 if known else each)


def _judged(run: Run, collected: Collected, tested: Tested) -> Judged:
    if tested.vetoed:
        return stopped(tested.findings)
    plan, lab, cid = run.plan, run.lab, tested.candidate.id
    tree = run.repo.tree(tested.candidate.commit)
    try:
        seen = lab.measure(Job(tree, 0, plan.steps, "search", plan.search))
    except CandidateError as error:
        return stopped((failure(error), *tested.findings))
    before = lab.arm_of("baseline", collected.tree, {0: collected.evaluated})
    return _compared(run, (before, lab.arm_of(cid, tree, {0: seen})))


def _compared(run: Run, refs: tuple[ArmRef, ArmRef]) -> Judged:
    before, after = (run.lab.rows(ref) for ref in refs)
    old, new = _score(before), _score(after)
    word, kind = ("kept", VerdictKind.PROMOTE) if new > old else ("reset", VerdictKind.REJECT)
    reason = f"{word}: solved {new:.1%} of {after.planned} search tasks, {old:.1%} before"
    evidence = {
        "judge": BY_SCORE,
        "inputs": {"split": "search"},
        "arms": {"baseline": arm_summary(before), "candidate": arm_summary(after)},
        "numbers": {"before": old, "after": new},
    }
    return Judged(Verdict(kind, (reason,), evidence=evidence), refs)


def _score(arm: Arm) -> float:
    return sum(bool(row.success) for row in arm.rows()) / arm.planned


def _kept(run: Run, version: Version, candidate: Candidate) -> Version:
    def merged() -> JSON:
        commit = run.repo.merge(onto=version.commit, **merge_terms(run, candidate))
        return {
            "candidate": candidate.id,
            "commit": commit,
            "version": f"v{int(version.id[1:]) + 1}",
            "generation": candidate.generation,
            "undone": False,
        }

    told = run.once(f"{candidate.id}/merge", "merge", {"onto": version.commit}, merged)
    return Version(told["version"], told["commit"])
