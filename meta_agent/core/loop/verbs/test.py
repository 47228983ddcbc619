"""Checks that cost no training: static checks, contract tests, and replay on stored rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.gate import Finding
from meta_agent.core.harness import CheckResult, parse_contract
from meta_agent.core.lab.fair import fairly
from meta_agent.core.lab.replay import ReplayReport, replay
from meta_agent.core.lab.static import static_check
from meta_agent.core.loop.records import Collected, Tested, failure
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Candidate, Factor, HarnessTree
from meta_agent.core.slices import listed

REPLAYED: Final[frozenset[Factor]] = frozenset({"reward", "filter"})
SAMPLES = 32
"""How many stored rollouts and tasks the contract tests use."""


def test(run: Run, collected: Collected, candidate: Candidate) -> Tested:
    """Runs every check that costs no training; returns the candidate with the faults found."""
    tree = run.repo.tree(candidate.commit)
    run.lab.label(tree, candidate.id.removeprefix(f"{run.id}/"))
    findings = _stage(run, candidate, "static", lambda: _static(run, collected, candidate, tree))
    if not _vetoed(findings):
        findings += keeps_contract(run, collected, candidate)
    if about(candidate) & REPLAYED and not _vetoed(findings):
        findings += _replay(run, collected, candidate, tree)
    return Tested(candidate, tuple(findings))


def about(candidate: Candidate) -> set[Factor]:
    """Returns all factors that a candidate edits."""
    return {candidate.factor, *candidate.hypothesis.factors}


def keeps_contract(run: Run, collected: Collected, candidate: Candidate) -> list[Finding]:
    """Returns a veto for each function of a candidate that breaks its interface on rollouts."""
    tree = run.repo.tree(candidate.commit)
    return _stage(run, candidate, "contract", lambda: broken_contract(run, collected, tree))


def _stage(
    run: Run, candidate: Candidate, stage: str, look: Callable[[], list[Finding]]
) -> list[Finding]:
    outcome = run.once(
        f"{candidate.id}/{stage}",
        "screen",
        {"commit": candidate.commit},
        lambda: _screen_row(candidate, stage, look()),
    )
    return [Finding.from_json(row) for row in outcome["findings"]]


def _screen_row(candidate: Candidate, stage: str, findings: list[Finding]) -> JSON:
    return {
        "candidate": candidate.id,
        "stage": stage,
        "passed": not _vetoed(findings),
        "reasons": [f"{finding.code}: {finding.message}" for finding in findings],
        "findings": [finding.to_json() for finding in findings],
    }


def _static(
    run: Run, collected: Collected, candidate: Candidate, tree: HarnessTree
) -> list[Finding]:
    if candidate.factor not in run.factors:
        return [factor_veto(run, candidate.factor)]
    label = candidate.hypothesis.factors
    return static_check(collected.tree, tree, parse_contract(collected.tree), factors=label)


def factor_veto(run: Run, factor: Factor) -> Finding:
    """Returns the veto of a change to a factor that this run may not edit or cannot train."""
    if factor in run.plan.factors:
        ours = ", ".join(run.factors)
        return Finding("factor.other", "veto", f"{factor} is another author's: edit {ours}")
    reason = f"{factor} acts through training, and {run.config.policy} is frozen"
    return Finding("factor.untrained", "veto", f"{reason}: {', '.join(run.factors)} can count")


def broken_contract(run: Run, collected: Collected, tree: HarnessTree) -> list[Finding]:
    """Returns a veto for each harness function that breaks its interface on stored rollouts."""
    samples = run.lab.rollouts(collected.evaluated.shard)[:SAMPLES]
    domain = run.lab.domain
    few = (domain.tasks("train") or domain.tasks("search"))[:SAMPLES]
    tasks = listed(domain, few)

    def checked() -> list[CheckResult]:
        with run.lab.session(tree) as session:
            return session.check(samples, tasks)

    try:
        failed = [check for check in fairly(checked) if not check.ok]
    except (CandidateError, ConfigError) as error:
        return [Finding("contract.load", "veto", str(error)[:1000])]
    return [Finding(f"contract.{check.name}", "veto", check.detail or "failed") for check in failed]


def backtest(run: Run, tested: Tested) -> str:
    """Returns why a replay speaks against an edit of reward or filter, or "" if it speaks for it.

    It speaks for an edit that orders the stored attempts more as clean success does, or that harms
    nothing and lets dead groups teach.
    """
    step = run.ledger.step(f"{tested.candidate.id}/replay")
    numbers: JSON = step.fields.get("numbers") if step and step.is_done else None
    if not numbers:
        return "there are no stored training attempts to replay it on"
    why = f"replayed on {numbers['rollouts']} stored attempts: {'; '.join(numbers['reasons'])}"
    revives = numbers["revived"] > numbers["killed"]
    speaks_for = numbers["reading"] == "improves" or (numbers["reading"] == "neutral" and revives)
    return "" if speaks_for else why


def _replay(
    run: Run, collected: Collected, candidate: Candidate, tree: HarnessTree
) -> list[Finding]:
    """Replays stored rollouts. Numbers only explain; code that fails in it earns a veto."""
    shard = collected.trained.shard
    if shard is None:
        return []
    outcome = run.once(
        f"{candidate.id}/replay",
        "screen",
        {"commit": candidate.commit},
        lambda: _replay_row(run, collected, candidate, tree),
    )
    if numbers := outcome.get("numbers"):
        run.note(f"{candidate.id} replay: {numbers['reading']}")
    return [Finding.from_json(row) for row in outcome["findings"]]


def _replay_row(run: Run, collected: Collected, candidate: Candidate, tree: HarnessTree) -> JSON:
    try:
        report = fairly(lambda: replayed(run, collected, tree))
    except CandidateError as error:
        return _screen_row(candidate, "replay", [failure(error, "replay")])
    return {**_screen_row(candidate, "replay", []), "numbers": report.to_json()}


def replayed(run: Run, collected: Collected, after: HarnessTree) -> ReplayReport:
    """Returns how the version's reward and filter differ from those of `after` on its rollouts.

    Raises CandidateError if the reward or the filter fails.
    """
    before, shard = collected.tree, collected.trained.shard
    with run.lab.session(before) as base, run.lab.session(after) as changed:
        lines = run.lab.store.iter_lines(shard["name"])
        return replay(base, changed, lines, stored_commit=before.commit)


def _vetoed(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "veto" for finding in findings)
