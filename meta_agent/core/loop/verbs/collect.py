"""Rolls the current version out on the search split, and turns its rollouts into evidence.

A version that trains a policy is read twice: once with the base policy and the first groups of its
training, and once with the trained policy and the last groups. A policy learns to live with a
fault. So faults of the harness often show only before training, and faults of training only after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Finding, wilson
from meta_agent.core.lab.fair import fairly
from meta_agent.core.lab.live import Evaluated
from meta_agent.core.lab.training import of_steps
from meta_agent.core.lab.units import EXEMPLAR_STEPS
from meta_agent.core.loop.diagnostics.discriminate import with_admitted
from meta_agent.core.loop.records import Collected, Reading, Version, must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs._same_set import by_one_set
from meta_agent.core.protocols import JSON, HarnessTree, Rollout, Split


def collect(run: Run, version: Version) -> Collected:
    """Trains a version (seed 0); returns its and the base policy's results on the search split.

    With a frozen policy there is one evaluation. Raises ConfigError if the harness fails.
    """
    tree, plan = run.repo.tree(version.commit), run.plan
    run.phase("collect", f"{version.id}: {plan.training}{plan.search} search tasks")
    run.lab.label(tree, version.id)
    run.lab.require(tree)
    with must_work(version):
        collected = measured(run, version)
        before = rolled_out_untrained(run, tree) if plan.trains else None
    return collected._replace(untrained=before)


def measured(run: Run, version: Version) -> Collected:
    """Trains a version with seed 0, and evaluates it on the search split; returns both results.

    Raises CandidateError if the harness fails.
    """
    tree = run.repo.tree(version.commit)
    trained = run.lab.train(tree, seed=0, steps=run.plan.steps)
    evaluation = run.lab.evaluate(tree, trained, split="search", limit=run.plan.search)
    return Collected(version, tree, trained, evaluation)


def rolled_out_untrained(run: Run, tree: HarnessTree) -> Evaluated:
    """Returns the base policy's results on search tasks. A harness error raises CandidateError."""
    return run.lab.evaluate(tree, run.lab.untrained(), split="search", limit=run.plan.search)


def read(run: Run, collected: Collected, generation: int, earlier: Evidence | None) -> Reading:
    """Records the evidence about a version and findings against its score; returns both.

    The evidence holds what the harness's diagnostics measure, and what changed since `earlier`.
    """
    version = collected.version
    run.phase("read", f"{version.id}: diagnostics over its rollouts")
    untrained = _untrained(run, collected, generation)
    outcome = run.once(
        f"g{generation}/evidence",
        "evidence",
        {"commit": version.commit},
        lambda: {
            "generation": generation,
            "version": version.id,
            **_read(run, collected, by_one_set(run, earlier, collected.tree, generation)),
        },
    )
    reading = Reading(
        Evidence.from_json(outcome),
        tuple(Finding.from_json(row) for row in outcome["findings"]),
        untrained=untrained,
    )
    if generation == 0:
        run.once(
            "baseline", "baseline", {"commit": version.commit}, lambda: _first(collected, reading)
        )
    for finding in reading.findings:
        run.note(f"{version.id} {finding.severity}: {finding.code}: {finding.message}")
    return reading


def _untrained(run: Run, collected: Collected, generation: int) -> Evidence | None:
    """Returns evidence of the base policy and the first training groups, or None if frozen."""
    before = collected.untrained
    if before is None:
        return None

    def read_untrained() -> JSON:
        rollouts = [*_steps(run, collected, first=True), *run.lab.rollouts(before.shard)]
        evidence = evidence_of(run, collected.version, collected.tree, rollouts)
        return {"generation": generation, "version": collected.version.id, **evidence.to_json()}

    intent = {"commit": collected.version.commit}
    return Evidence.from_json(
        run.once(f"g{generation}/untrained", "untrained", intent, read_untrained)
    )


def _read(run: Run, collected: Collected, earlier: Evidence | None) -> dict[str, JSON]:
    learned, evaluation = _steps(run, collected, first=False), collected.evaluated
    evidence = evidence_of(
        run,
        collected.version,
        collected.tree,
        [*learned, *run.lab.rollouts(evaluation.shard)],
        metrics=collected.trained.metrics,
        earlier=earlier,
    )
    arm = run.lab.arm_of(collected.version.id, collected.tree, {0: evaluation})
    findings = run.lab.inspector.within(arm)
    moved = run.extensions.evidence.gap(evidence, earlier)
    return {
        **evidence.to_json(),
        "gap": moved.to_json() if moved else None,
        "exemplars": _exemplars(run, run.lab.rollouts(collected.evaluated.shard)),
        "findings": [finding.to_json() for finding in findings],
    }


def evidence_of(
    run: Run,
    version: Version,
    tree: HarnessTree,
    rollouts: list[Rollout],
    *,
    metrics: Sequence[Mapping[str, JSON]] | None = None,
    earlier: Evidence | None = None,
) -> Evidence:
    """Returns the evidence of rollouts and training `metrics`, and its changes since `earlier`.

    Raises ConfigError, which names `version`, if the harness's own code fails.
    """
    with must_work(version):
        evidence = run.extensions.evidence.build_evidence(
            rollouts,
            train_metrics=metrics,
            measured=read_by(run, tree, rollouts),
            baseline=earlier,
            probed=_probed(run, tree, rollouts),
            tasks=_views(run),
        )
    return with_admitted(run, evidence)


def _steps(run: Run, collected: Collected, *, first: bool) -> list[Rollout]:
    """Returns the stored training attempts of the first or last `EXEMPLAR_STEPS` steps."""
    shard = collected.trained.shard
    rollouts = run.lab.rollouts(shard) if shard else []
    return of_steps(rollouts, first=first, count=EXEMPLAR_STEPS)


def _exemplars(run: Run, rollouts: list[Rollout]) -> JSON:
    by_mode = run.extensions.evidence.exemplars(rollouts, per_mode=2)
    return {mode: [e.to_json() for e in exemplars] for mode, exemplars in by_mode.items()}


def _probed(run: Run, tree: HarnessTree, rollouts: list[Rollout]) -> Mapping[str, float]:
    """Returns what the reward, filter and curriculum do; empty if nothing is trained."""
    if not run.plan.trains:
        return {}

    def probe() -> Mapping[str, float]:
        with run.lab.session(tree) as session:
            return run.extensions.evidence.probe(session, rollouts, run.lab.domain.tasks("train"))

    return fairly(probe)


def _views(run: Run) -> dict[str, Mapping[str, JSON]]:
    """Returns what an agent is given, by key, for tasks that may be shown."""
    splits: tuple[Split, ...] = ("search", "train")
    return {task.key: task.view for split in splits for task in run.lab.domain.tasks(split)}


def read_by(run: Run, tree: HarnessTree, rollouts: list[Rollout]) -> dict[str, dict[str, float]]:
    """Returns what a harness's diagnostics measure on rollouts, by diagnostic and number."""

    def measured() -> dict[str, dict[str, float]]:
        with run.lab.session(tree) as session:
            return {m.name: dict(m.values) for m in session.measure(rollouts)}

    return fairly(measured)


def _first(collected: Collected, reading: Reading) -> JSON:
    """Returns the record of the first version on the search split: a starting point, no claim."""
    evaluation = collected.evaluated
    interval = wilson(evaluation.clean, evaluation.planned)
    return {
        "version": collected.version.id,
        "policy": collected.trained.policy,
        "harness_commit": collected.version.commit,
        "split": "search",
        "n": evaluation.planned,
        "success": evaluation.solved / evaluation.planned,
        "clean_success": evaluation.clean_success,
        "ci": [interval.low, interval.high],
        "valid": not reading.invalid,
    }
