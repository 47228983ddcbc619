"""collect and read: roll the current version out, and turn its rollouts into evidence.

A version whose policy is trained is read twice: as the base policy behaves under it, with the first
groups of its training, and as its trained policy does, with the last ones. A policy learns to live
with a fault, so what is wrong with a harness is often plain only before training, and what is wrong
with its training only after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Finding, wilson
from meta_agent.core.lab.fair import fairly
from meta_agent.core.lab.live import ArmRef, Evaluated
from meta_agent.core.lab.training import of_steps
from meta_agent.core.lab.units import EXEMPLAR_STEPS
from meta_agent.core.loop.records import Collected, Reading, Version, must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs._same_set import by_one_set
from meta_agent.core.protocols import JSON, HarnessTree, Rollout, Split


def collect(run: Run, version: Version) -> Collected:
    """Trains the version on seed 0 and rolls it out on the search split (cached)."""
    tree, plan = run.repo.tree(version.commit), run.plan
    run.phase("collect", f"{version.id}: {plan.training}{plan.search} search tasks")
    run.lab.label(tree, version.id)
    run.lab.require(tree)
    with must_work(version):
        found = measured(run, version)
        before = rolled_out_untrained(run, tree) if plan.trains else None
    return found._replace(untrained=before)


def measured(run: Run, version: Version) -> Collected:
    """The version's policy (seed 0) on the search split: of a cell that was chosen, its own."""
    tree = run.repo.tree(version.commit)
    trained = run.lab.train(tree, seed=0, steps=run.plan.steps)
    seen = run.lab.evaluate(tree, trained, split="search", limit=run.plan.search)
    return Collected(version, tree, trained, seen)


def rolled_out_untrained(run: Run, tree: HarnessTree) -> Evaluated:
    """The base policy under a harness, on the search split."""
    return run.lab.evaluate(tree, run.lab.untrained(), split="search", limit=run.plan.search)


def read(run: Run, collected: Collected, generation: int, earlier: Evidence | None) -> Reading:
    """Runs the harness's diagnostics over the rollouts and builds the four layers, twice."""
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
        tuple(Finding.from_json(found) for found in outcome["findings"]),
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
    """What the base policy did, with the groups that its training began with."""
    before = collected.untrained
    if before is None:
        return None

    def told() -> JSON:
        rollouts = [*_steps(run, collected, first=True), *run.lab.rollouts(before.shard)]
        evidence = evidence_of(run, collected.version, collected.tree, rollouts)
        return {"generation": generation, "version": collected.version.id, **evidence.to_json()}

    intent = {"commit": collected.version.commit}
    return Evidence.from_json(run.once(f"g{generation}/untrained", "untrained", intent, told))


def _read(run: Run, collected: Collected, earlier: Evidence | None) -> dict[str, JSON]:
    learned, seen = _steps(run, collected, first=False), collected.evaluated
    evidence = evidence_of(
        run,
        collected.version,
        collected.tree,
        [*learned, *run.lab.rollouts(seen.shard)],
        metrics=collected.trained.metrics,
        earlier=earlier,
    )
    findings = run.lab.inspector.within(_search_arm(run, collected))
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
    """Measured attempts, training attempts, and the harness's own diagnostics on both."""
    with must_work(version):
        return run.extensions.evidence.build_evidence(
            rollouts,
            train_metrics=metrics,
            measured=read_by(run, tree, rollouts),
            baseline=earlier,
            probed=_probed(run, tree, rollouts),
            tasks=_views(run),
        )


def _steps(run: Run, collected: Collected, *, first: bool) -> list[Rollout]:
    """The stored training attempts of the first or of the last steps (`EXEMPLAR_STEPS`)."""
    shard = collected.trained.shard
    rollouts = run.lab.rollouts(shard) if shard else []
    return of_steps(rollouts, first=first, count=EXEMPLAR_STEPS)


def _exemplars(run: Run, seen: list[Rollout]) -> JSON:
    found = run.extensions.evidence.exemplars(seen, per_mode=2)
    return {mode: [one.to_json() for one in picked] for mode, picked in found.items()}


def _search_arm(run: Run, collected: Collected) -> ArmRef:
    return run.lab.arm_of(collected.version.id, collected.tree, {0: collected.evaluated})


def _probed(run: Run, tree: HarnessTree, rollouts: list[Rollout]) -> Mapping[str, float]:
    """What the version's filter and curriculum do, where anything trains."""
    if not run.plan.trains:
        return {}

    def asked() -> Mapping[str, float]:
        with run.lab.session(tree) as session:
            return run.extensions.evidence.probe(session, rollouts, run.lab.domain.tasks("train"))

    return fairly(asked)


def _views(run: Run) -> dict[str, Mapping[str, JSON]]:
    """What each task that an agent may be shown gives it."""
    splits: tuple[Split, ...] = ("search", "train")
    return {task.key: task.view for split in splits for task in run.lab.domain.tasks(split)}


def read_by(run: Run, tree: HarnessTree, rollouts: list[Rollout]) -> dict[str, dict[str, float]]:
    """What the diagnostics of a harness say of rollouts, its own or another's."""

    def measured() -> dict[str, dict[str, float]]:
        with run.lab.session(tree) as session:
            return {found.name: dict(found.values) for found in session.measure(rollouts)}

    return fairly(measured)


def _first(collected: Collected, reading: Reading) -> JSON:
    """The first version as the search split sees it: a starting point, never a claim."""
    seen = collected.evaluated
    interval = wilson(seen.clean, seen.planned)
    return {
        "version": collected.version.id,
        "policy": collected.trained.policy,
        "harness_commit": collected.version.commit,
        "split": "search",
        "n": seen.planned,
        "success": seen.solved / seen.planned,
        "clean_success": seen.clean / seen.planned,
        "ci": [interval.low, interval.high],
        "valid": not reading.invalid,
    }
