"""test: static and contract checks, replay on stored rollouts, then a short live screening."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meta_agent.backtest.live import ArmRef, Job
from meta_agent.backtest.replay import replay
from meta_agent.backtest.static import static_check
from meta_agent.gate import Finding, find_all, judge_screen
from meta_agent.harness import parse_contract
from meta_agent.protocols import JSON, Candidate, HarnessTree, Verdict, VerdictKind
from meta_agent.steps.collect import Collected
from meta_agent.steps.run import Judged, Run, Tested

REPLAYED = frozenset({"reward", "filter"})
SAMPLES = 32
"""Stored rollouts and tasks that the contract tests see."""


def test(run: Run, collected: Collected, candidate: Candidate) -> Tested:
    """Everything that costs no training."""
    tree = run.repo.tree(candidate.commit)
    run.lab.label(tree, candidate.id.removeprefix(f"{run.id}/"))
    findings = _stage(run, candidate, "static", lambda: _static(collected, tree))
    if not _vetoed(findings):
        findings += _stage(
            run, candidate, "contract", lambda: contract_findings(run, collected, tree)
        )
    if candidate.factor in REPLAYED and not _vetoed(findings):
        _replay(run, collected, candidate, tree)
    return Tested(candidate, tuple(findings))


def _stage(
    run: Run, candidate: Candidate, stage: str, look: Callable[[], list[Finding]]
) -> list[Finding]:
    outcome = run.once(
        f"{candidate.id}/{stage}",
        "screen",
        {"commit": candidate.commit},
        lambda: _screen_row(candidate, stage, look()),
    )
    return [Finding.from_json(found) for found in outcome["findings"]]


def _screen_row(candidate: Candidate, stage: str, findings: list[Finding]) -> JSON:
    return {
        "candidate": candidate.id,
        "stage": stage,
        "passed": not _vetoed(findings),
        "reasons": [f"{finding.code}: {finding.message}" for finding in findings],
        "findings": [finding.to_json() for finding in findings],
    }


def _static(collected: Collected, tree: HarnessTree) -> list[Finding]:
    return list(static_check(collected.tree, tree, parse_contract(collected.tree)))


def contract_findings(run: Run, collected: Collected, tree: HarnessTree) -> list[Finding]:
    """The harness's contract tests, on rollouts that were really made."""
    samples = run.lab.rollouts(collected.evaluated.shard)[:SAMPLES]
    tasks = [{"key": t.key, "view": dict(t.view)} for t in run.lab.domain.tasks("train")[:SAMPLES]]
    with run.lab.session(tree) as session:
        failed = [check for check in session.check(samples, tasks) if not check.ok]
    return [Finding(f"contract.{check.name}", "veto", check.detail or "failed") for check in failed]


def _replay(run: Run, collected: Collected, candidate: Candidate, tree: HarnessTree) -> None:
    shard = collected.trained.shard
    if shard is None:
        return
    outcome = run.once(
        f"{candidate.id}/replay",
        "screen",
        {"commit": candidate.commit},
        lambda: {
            "candidate": candidate.id,
            "stage": "replay",
            "passed": True,  # a replay ranks and explains; it never decides
            "numbers": _replayed(run, collected.tree, tree, shard),
        },
    )
    run.note(f"{candidate.id} replay: {outcome['numbers']['reading']}")


def _replayed(run: Run, before: HarnessTree, after: HarnessTree, shard: JSON) -> JSON:
    with run.lab.session(before) as base, run.lab.session(after) as changed:
        lines = run.lab.store.iter_lines(shard["name"])
        return replay(base, changed, lines, stored_commit=before.commit).to_json()


class Screened(NamedTuple):
    """Who goes on to the confirm split, and the verdicts of those that do not."""

    kept: tuple[str, ...]
    judged: dict[str, Judged]


def screen(run: Run, collected: Collected, tested: Sequence[Tested]) -> Screened:
    """Ranks the candidates that passed on the search split.

    A scaffold candidate acts on the current version's policy as it is; the others train one seed,
    which a finalist's live test then reuses. Either is compared to the baseline on the same terms.
    """
    passed = [t for t in tested if not t.vetoed]
    run.phase("test", f"{len(passed)} candidates on {run.plan.search} search tasks, one seed")
    run.lab.prepare([job for t in passed for job in _jobs(run, collected, t)])
    refs = {t.candidate.id: _arms(run, collected, t) for t in passed}
    arms = {cid: (run.lab.rows(old), run.lab.rows(new)) for cid, (old, new) in refs.items()}
    findings = {t.candidate.id: (*find_all(*arms[t.candidate.id]), *t.findings) for t in passed}
    ranked = judge_screen(
        {cid: baseline for cid, (baseline, _) in arms.items()},
        {cid: candidate for cid, (_, candidate) in arms.items()},
        findings=findings,
        keep=run.plan.finalists,
    )
    judged = {cid: Judged(verdict, refs[cid]) for cid, verdict in ranked.verdicts.items()}
    return Screened(
        ranked.kept, {**{t.candidate.id: _stopped(t) for t in tested if t.vetoed}, **judged}
    )


def _stopped(tested: Tested) -> Judged:
    """It never ran: a static or contract check stopped it."""
    reasons = tuple(f"{f.code}: {f.message}" for f in tested.findings if f.severity == "veto")
    findings = [finding.to_json() for finding in tested.findings]
    evidence = {"judge": "checks", "findings": findings}
    return Judged(Verdict(VerdictKind.INVALID, reasons, evidence=evidence))


def _jobs(run: Run, collected: Collected, tested: Tested) -> list[Job]:
    if _frozen(tested):
        return []
    trees = (collected.tree, run.repo.tree(tested.candidate.commit))
    return [Job(tree, 0, run.plan.steps, "search", run.plan.search) for tree in trees]


def _arms(run: Run, collected: Collected, tested: Tested) -> tuple[ArmRef, ArmRef]:
    candidate, lab, limit = tested.candidate, run.lab, run.plan.search
    tree = run.repo.tree(candidate.commit)
    if _frozen(tested):
        after = lab.evaluate(tree, collected.trained, split="search", limit=limit)
        sides = collected.evaluated, after
    else:
        before, after = (lab.measure(job) for job in _jobs(run, collected, tested))
        sides = before, after
    return (
        lab.arm_of("baseline", collected.tree, {0: sides[0]}),
        lab.arm_of(candidate.id, tree, {0: sides[1]}),
    )


def _frozen(tested: Tested) -> bool:
    return tested.candidate.factor == "scaffold"


def _vetoed(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "veto" for finding in findings)
