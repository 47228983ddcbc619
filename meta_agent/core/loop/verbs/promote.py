"""promote: what is proven comes to `main`, one `--no-ff` merge a member, as it was claimed.

The commit that was claimed is the end of a chain of such merges on the start, made ahead while
`main` waited (`cells.mixed`). So `main` moves to it as it stands: what is promoted is what was
measured, and nothing has to be judged again. Diagnostics were admitted by a rule of their own
(`discriminate`): they come to `main` also where nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from meta_agent.core.gate import verdict_from_json, verdict_to_json
from meta_agent.core.ledger import crash_point
from meta_agent.core.loop.records import Found, Judged, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_merge
from meta_agent.core.loop.verbs.attribute import attribute
from meta_agent.core.loop.verbs.cells import mixed
from meta_agent.core.loop.verbs.claim import CLAIM
from meta_agent.core.protocols import JSON, Candidate


def promote(run: Run, first: Version, found: Found, decided: Judged) -> JSON:
    """Moves `main`, and attributes the gain to harness and policy: what it returns."""
    commit = found.version.commit
    run.phase("merge", f"{len(found.members)} changes to main")
    run.once(f"{CLAIM}/ref", "ref", {"onto": first.commit}, lambda: _moved(run, first, commit))
    parts = attribute(run, first.commit, commit)
    verdict = verdict_to_json(decided.verdict)
    merged = partial(_told, run, f"{run.id}/{CLAIM}", found.candidates, commit, verdict)
    run.once(
        f"{CLAIM}/merge",
        "merge",
        {"commit": commit},
        lambda: {**merged("v1"), "attribution": parts},
    )
    return parts


def promote_watching(run: Run, first: Version, found: Found) -> Version:
    """Brings the diagnostics that were admitted to `main`, and nothing else of what was found."""
    watching = [one for one in found.candidates if one.factor == "diagnostics"]
    if not watching:
        return first
    commit, last = mixed(run, first.commit, "watching", watching).commit, watching[-1]
    step = run.ledger.step(f"{last.id}/verdict")
    verdict: JSON = step.fields if step and step.is_done else {}
    if not to_merge(run, last, verdict_from_json(verdict)):
        return first
    run.once("watching/ref", "ref", {"onto": first.commit}, lambda: _moved(run, first, commit))
    merged = partial(_told, run, last.id, watching, commit, verdict)
    run.once("watching/merge", "merge", {"commit": commit}, lambda: merged(first.id))
    return Version(first.id, commit)


def _moved(run: Run, first: Version, commit: str) -> JSON:
    run.repo.advance(commit, onto=first.commit)
    crash_point("after_ref_cas")
    return {"commit": commit}


def _told(
    run: Run,
    name: str,
    members: Sequence[Candidate],
    commit: str,
    verdict: Mapping[str, JSON],
    version: str,
) -> JSON:
    ids = [member.id for member in members]
    claim = {"with": ids, "commit": commit}
    return {
        "candidate": name,
        "members": ids,
        "commit": commit,
        "version": version,
        "policy": run.lab.train(run.repo.tree(commit), seed=0, steps=run.plan.steps).policy,
        "generation": max(member.generation for member in members),
        "verdict": {**verdict, "evidence": {**verdict["evidence"], "claim": claim}},
        "undone": False,
    }
