"""merge: the winner goes into main as a merge commit, and the merge commit is tested again."""

from __future__ import annotations

from dataclasses import replace

from meta_agent.gate import verdict_to_json
from meta_agent.ledger import crash_point
from meta_agent.protocols import JSON, Candidate, Verdict, VerdictKind
from meta_agent.steps.collect import Collected
from meta_agent.steps.confirm import confirm
from meta_agent.steps.run import Run, Tested, Version
from meta_agent.steps.test import contract_findings


def merge(run: Run, collected: Collected, tested: Tested) -> Version | None:
    """Merges a promoted candidate and re-tests the merge commit; one that fails is undone."""
    candidate, version = tested.candidate, collected.version
    run.phase("merge", f"{candidate.id} into main, then the merge commit is tested")
    commit = run.once(
        f"{candidate.id}/ref",
        "ref",
        {"ref": candidate.ref, "onto": version.commit},
        lambda: _merge(run, candidate, version),
    )["commit"]
    retest = _retest(run, collected, tested, commit)
    holds = retest.kind is VerdictKind.PROMOTE
    if not holds:
        run.note(f"merge {commit[:12]} does not hold ({retest.reasons[0]}); undone")
        run.once(
            f"{candidate.id}/undo", "undo", {"to": version.commit}, lambda: _undo(run, version)
        )
    made = Version(f"v{int(version.id[1:]) + 1}", commit)
    run.once(
        f"{candidate.id}/merge",
        "merge",
        {"commit": commit},
        lambda: _told(run, candidate, made, retest, undone=not holds),
    )
    return made if holds else None


def _merge(run: Run, candidate: Candidate, version: Version) -> JSON:
    hypothesis = candidate.hypothesis
    commit = run.repo.merge(
        candidate.ref,
        onto=version.commit,
        message=f"merge({candidate.factor}): {candidate.id}\n\n{hypothesis.statement}",
        trailers=run.trailers(candidate.id, hypothesis),
        when=run.date(candidate.generation, 900 + candidate.index),
    )
    crash_point("after_ref_cas")
    return {"commit": commit}


def _retest(run: Run, collected: Collected, tested: Tested, commit: str) -> Verdict:
    """The same looks on the merge commit; its runs are the candidate's where the files agree."""
    tree = run.repo.tree(commit)
    merged = replace(
        tested.candidate,
        id=f"{tested.candidate.id}/merged",
        commit=commit,
        tree_hash=tree.tree_hash,
    )
    findings = contract_findings(run, collected, tree)
    return confirm(run, collected, Tested(merged, tuple(findings))).verdict


def _told(run: Run, candidate: Candidate, made: Version, retest: Verdict, *, undone: bool) -> JSON:
    trained = run.lab.train(run.repo.tree(made.commit), seed=0, steps=run.plan.steps)
    return {
        "candidate": candidate.id,
        "commit": made.commit,
        "version": made.id,
        "policy": trained.policy,
        "generation": candidate.generation,
        "verdict": verdict_to_json(retest),
        "undone": undone,
    }


def _undo(run: Run, version: Version) -> JSON:
    return {"commit": run.repo.revert_main(version.commit)}
