"""merge: the winner goes into main as a merge commit, and the merge commit is tested again.

A merge commit that does not hold is undone by a new commit with the old files. The run goes on from
there, and the candidate's verdict becomes the one on its merge commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from meta_agent.gate import verdict_to_json
from meta_agent.ledger import crash_point
from meta_agent.protocols import JSON, Candidate, Verdict, VerdictKind
from meta_agent.steps.collect import Collected
from meta_agent.steps.confirm import confirm
from meta_agent.steps.run import Judged, Run, Tested, Version, stopped
from meta_agent.steps.test import keeps_contract


class Merged(NamedTuple):
    """The version to go on from, and the last word on the candidate."""

    version: Version
    judged: Judged


def merge(
    run: Run, collected: Collected, version: Version, tested: Tested, judged: Judged
) -> Merged:
    """Merges a promoted candidate into `version` (what `main` is at) and tests the merge commit."""
    candidate = tested.candidate
    run.phase("merge", f"{candidate.id} into main, then the merge commit is tested")
    commit = run.once(
        f"{candidate.id}/ref",
        "ref",
        {"ref": candidate.ref, "onto": version.commit},
        lambda: _merge(run, candidate, version),
    )["commit"]
    retest = _retest(run, collected, tested, commit)
    holds = retest.verdict.kind is VerdictKind.PROMOTE
    made = Version(f"v{int(version.id[1:]) + 1}", commit)
    after = Merged(made, judged) if holds else Merged(_undo(run, version, tested, retest), retest)
    run.once(
        f"{candidate.id}/merge",
        "merge",
        {"commit": commit},
        lambda: _told(run, candidate, made, retest.verdict, undone=not holds),
    )
    return after


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


def _retest(run: Run, collected: Collected, tested: Tested, commit: str) -> Judged:
    """The same looks on the merge commit; its runs are the candidate's where the files agree."""
    tree = run.repo.tree(commit)
    merged = replace(
        tested.candidate,
        id=f"{tested.candidate.id}/merged",
        commit=commit,
        tree_hash=tree.tree_hash,
    )
    findings = tuple(keeps_contract(run, collected, merged))
    again = Tested(merged, findings)
    return stopped(findings) if again.vetoed else confirm(run, collected, again)


def _told(run: Run, candidate: Candidate, made: Version, retest: Verdict, *, undone: bool) -> JSON:
    policy = None if undone else _policy(run, made)
    return {
        "candidate": candidate.id,
        "commit": made.commit,
        "version": made.id,
        "policy": policy,
        "generation": candidate.generation,
        "verdict": verdict_to_json(retest),
        "undone": undone,
    }


def _policy(run: Run, version: Version) -> str:
    """The policy of the pre-registered training seed."""
    return run.lab.train(run.repo.tree(version.commit), seed=0, steps=run.plan.steps).policy


def _undo(run: Run, version: Version, tested: Tested, retest: Judged) -> Version:
    """The version of before, at the commit that restores its files."""
    candidate = tested.candidate
    run.note(f"the merge of {candidate.id} does not hold ({retest.verdict.reasons[0]}); undone")
    when = run.date(candidate.generation, 925 + candidate.index)
    undone = run.once(
        f"{candidate.id}/undo",
        "undo",
        {"to": version.commit},
        lambda: {"commit": run.repo.revert_main(version.commit, when=when)},
    )
    return Version(version.id, undone["commit"])
