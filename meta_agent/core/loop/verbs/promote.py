"""Advances `main` to the proven commit, with one `--no-ff` merge per member.

The search has made these merges on top of the start already (`cells.mixed`), and the claim measured
their last commit. So `main` advances to exactly what was measured, and nothing is judged again.
Diagnostics have a rule of their own (`discriminate`): they reach `main` even alone, without the
edits that they were written on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import verdict_from_json, verdict_to_json
from meta_agent.core.lab.live import Trained
from meta_agent.core.ledger import crash_point
from meta_agent.core.loop.records import Judged, SearchResult, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_merge
from meta_agent.core.loop.verbs.attribute import attribute
from meta_agent.core.loop.verbs.cells import mixed
from meta_agent.core.loop.verbs.claim import CLAIM
from meta_agent.core.protocols import JSON, Candidate, VerdictKind


def promote(
    run: Run,
    first: Version,
    result: SearchResult,
    decided: Judged,
    weights: tuple[Trained, Trained],
) -> JSON:
    """Moves `main` to the proven commit; returns how much of the gain harness and policy bring.

    `weights` are those of the first version and of the new one. Returns None if the budget cannot
    pay for measuring that. Raises ConfigError without PROMOTE.
    """
    if decided.verdict.kind is not VerdictKind.PROMOTE:
        raise ConfigError(
            f"only a harness with the verdict PROMOTE is merged, not {decided.verdict.kind.value}",
            hint="the strategy must return HandedOver(version, weights, 'unproven', words) for it",
        )
    commit = result.version.commit
    run.phase("merge", f"{len(result.members)} changes to main")
    run.once(
        f"{CLAIM}/ref", "ref", {"onto": first.commit}, lambda: _advance_main(run, first, commit)
    )
    parts = attribute(run, first.commit, commit, weights)
    verdict = verdict_to_json(decided.verdict)
    merge_record = partial(
        _merge_record, run, f"{run.id}/{CLAIM}", result.candidates, commit, verdict, weights[1]
    )
    run.once(
        f"{CLAIM}/merge",
        "merge",
        {"commit": commit},
        lambda: {**merge_record("v1"), "attribution": parts},
    )
    return parts


def promote_diagnostics(run: Run, first: Version, result: SearchResult) -> Version:
    """Merges only a search's admitted diagnostics into `main`; returns the version that this makes.

    Returns `first`, the version before, if there are no diagnostics or a person declines.
    """
    watching = [candidate for candidate in result.candidates if candidate.factor == "diagnostics"]
    if not watching:
        return first
    commit, last = mixed(run, first.commit, "watching", watching).commit, watching[-1]
    step = run.ledger.step(f"{last.id}/verdict")
    verdict: JSON = step.fields if step and step.is_done else {}
    if not to_merge(run, last, verdict_from_json(verdict)):
        return first
    run.once(
        "watching/ref", "ref", {"onto": first.commit}, lambda: _advance_main(run, first, commit)
    )
    policy = run.lab.train(run.repo.tree(commit), seed=0, steps=run.plan.steps)
    merge_record = partial(_merge_record, run, last.id, watching, commit, verdict, policy)
    run.once("watching/merge", "merge", {"commit": commit}, lambda: merge_record(first.id))
    return Version(first.id, commit)


def _advance_main(run: Run, first: Version, commit: str) -> JSON:
    run.repo.advance(commit, onto=first.commit)
    crash_point("after_ref_cas")
    return {"commit": commit}


def _merge_record(
    run: Run,
    name: str,
    members: Sequence[Candidate],
    commit: str,
    verdict: Mapping[str, JSON],
    weights: Trained,
    version: str,
) -> JSON:
    ids = [member.id for member in members]
    claim = {"with": ids, "commit": commit}
    return {
        "candidate": name,
        "members": ids,
        "commit": commit,
        "version": version,
        "policy": weights.policy,
        "generation": max(member.generation for member in members),
        "verdict": {**verdict, "evidence": {**verdict["evidence"], "claim": claim}},
        "undone": False,
    }
