"""How good predictions are: what a hypothesis said its metric would do, and what it did.

Also for candidates that were only screened: there the split and the single training seed say how
little it is. It judges the proposer, never the candidate.
"""

from __future__ import annotations

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import effect, pair
from meta_agent.core.lab.live import ArmRef
from meta_agent.core.loop.records import Collected, Judged
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.collect import read_by
from meta_agent.core.protocols import JSON, Candidate, Rollout


def calibration(run: Run, collected: Collected, candidate: Candidate, judged: Judged) -> JSON:
    """Predicted against realised, or None where that was not measured on both sides.

    Of a bundle's member both sides are the bundle, without it and with it. A metric that only a
    training shows is realised where the arms' own trainings are among what is stored.
    """
    if judged.arms is None:
        return None
    told = candidate.hypothesis
    realised = _realised(run, collected, judged.arms, told.metric)
    if realised is None:
        return None
    return {
        "metric": told.metric,
        "predicted": told.expected_delta,
        "realised": realised,
        "right_direction": realised > 0 if told.direction == "up" else realised < 0,
        "training_seeds": len(judged.arms[1].shards),
    }


def _realised(
    run: Run, collected: Collected, arms: tuple[ArmRef, ArmRef], metric: str
) -> float | None:
    """Clean success by pairs; another metric as the arms differ in it on their first seed."""
    if metric == "clean_success":
        old, new = (run.lab.rows(ref) for ref in arms)
        return effect(pair(old, new), alpha=0.25).delta
    before, after = (_metric(run, collected, arm, metric) for arm in arms)
    return None if before is None or after is None else after - before


def _metric(run: Run, collected: Collected, arm: ArmRef, metric: str) -> float | None:
    """Both arms are read by one set of diagnostics, the version's: a candidate brings none."""
    shard = arm.shards[min(arm.shards)]
    seen, trained = run.lab.rollouts(shard), run.lab.behind(shard)
    measured = _measured(run, collected, seen) if metric.startswith("measured.") else {}
    learned = run.lab.rollouts(trained.shard) if trained and trained.shard else []
    metrics = trained.metrics if trained else []
    evidence = run.extensions.evidence.build_evidence(
        [*learned, *seen], train_metrics=metrics, measured=measured
    )
    return evidence.metric(metric)


def _measured(run: Run, collected: Collected, seen: list[Rollout]) -> dict[str, dict[str, float]]:
    try:
        return read_by(run, collected.tree, seen)
    except CandidateError:  # on attempts that are unlike any that it was tried on
        return {}
