"""judge: the finalist against the current version on the confirm split, look by look."""

from __future__ import annotations

from meta_agent.backtest.live import Job
from meta_agent.gate import Arm, Finding, find_all, judge_live, verdict_from_json, verdict_to_json
from meta_agent.protocols import JSON, HarnessTree, Verdict, VerdictKind
from meta_agent.steps.collect import Collected
from meta_agent.steps.run import Run, Tested


def confirm(run: Run, collected: Collected, tested: Tested) -> Verdict:
    """Buys training seeds until the gate decides or the declared looks are used up."""
    verdict = None
    for look, seeds in enumerate(run.plan.looks):
        verdict = _look(run, collected, tested, look, seeds)
        if verdict.kind is not VerdictKind.INCONCLUSIVE:
            break
    assert verdict is not None, "a plan has at least one look"
    return verdict


def _look(run: Run, collected: Collected, tested: Tested, look: int, seeds: int) -> Verdict:
    candidate, plan = tested.candidate, run.plan
    run.phase("judge", f"{candidate.id}: look {look + 1}, {seeds} training seeds")
    tree = run.repo.tree(candidate.commit)
    run.lab.prepare(
        [
            Job(side, seed, plan.steps, "confirm", plan.confirm)
            for seed in range(seeds)
            for side in (collected.tree, tree)
        ]
    )
    outcome = run.once(
        f"{candidate.id}/look{look}",
        "live",
        {"candidate": candidate.id, "look": look, "seeds": seeds},
        lambda: _judge(run, (collected.tree, tree), tested, look, seeds),
    )
    return verdict_from_json(outcome["verdict"])


def _judge(
    run: Run, trees: tuple[HarnessTree, HarnessTree], tested: Tested, look: int, seeds: int
) -> JSON:
    plan = run.plan
    baseline, candidate = (
        _arm(run, name, tree, seeds)
        for name, tree in zip(("baseline", tested.candidate.id), trees, strict=True)
    )
    verdict = judge_live(
        baseline,
        candidate,
        factor=tested.candidate.factor,
        budget=plan.budget,
        look=look,
        final_look=look == len(plan.looks) - 1,
        min_effect=plan.min_effect,
        findings=_findings(run, baseline, candidate, tested),
    )
    before, after = trees
    return {
        "candidate": tested.candidate.id,
        "arm": tested.candidate.id,
        "split": "confirm",
        "seeds": seeds,
        "verdict": verdict_to_json(verdict),
        "shards": {
            "baseline": _shards(run, before, seeds),
            "candidate": _shards(run, after, seeds),
        },
        "reward_hashes": {"baseline": baseline.reward_hash, "candidate": candidate.reward_hash},
        "planned": plan.confirm,
    }


def _arm(run: Run, name: str, tree: HarnessTree, seeds: int) -> Arm:
    plan = run.plan
    return run.lab.arm(
        name, tree, seeds=seeds, steps=plan.steps, split="confirm", limit=plan.confirm
    )


def _shards(run: Run, tree: HarnessTree, seeds: int) -> JSON:
    plan = run.plan
    jobs = (Job(tree, seed, plan.steps, "confirm", plan.confirm) for seed in range(seeds))
    return {str(job.seed): run.lab.measure(job).shard for job in jobs}


def _findings(run: Run, baseline: Arm, candidate: Arm, tested: Tested) -> tuple[Finding, ...]:
    train_hashes = {task.content_hash for task in run.lab.domain.tasks("train")}
    return (*find_all(baseline, candidate, train_hashes=train_hashes), *tested.findings)
