"""Calibration: compares how a hypothesis said its metric would move with how it moved.

It also covers candidates that were only screened. It judges the proposer, not the candidate.
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
    """Returns the predicted and the measured change of the metric that a hypothesis names.

    Returns None if the verdict compares no stored rollouts, or if a side lacks the metric.
    """
    if judged.arms is None:
        return None
    hypothesis = candidate.hypothesis
    realised = _realised(run, collected, judged.arms, hypothesis.metric)
    if realised is None:
        return None
    return {
        "metric": hypothesis.metric,
        "predicted": hypothesis.expected_delta,
        "realised": realised,
        "right_direction": realised > 0 if hypothesis.direction == "up" else realised < 0,
        "training_seeds": len(judged.arms[1].shards),
    }


def _realised(
    run: Run, collected: Collected, arms: tuple[ArmRef, ArmRef], metric: str
) -> float | None:
    """Returns how the metric changed: clean success over all seeds, others on the first one."""
    if metric == "clean_success":
        old, new = (run.lab.rows(ref) for ref in arms)
        return effect(pair(old, new), alpha=0.25).delta
    before, after = (_metric(run, collected, arm, metric) for arm in arms)
    return None if before is None or after is None else after - before


def _metric(run: Run, collected: Collected, arm: ArmRef, metric: str) -> float | None:
    """Returns an arm's metric. The version's diagnostics read both arms, never the candidate's."""
    shard = arm.shards[min(arm.shards)]
    rollouts, trained = run.lab.rollouts(shard), run.lab.behind(shard)
    measured = _measured(run, collected, rollouts) if metric.startswith("measured.") else {}
    learned = run.lab.rollouts(trained.shard) if trained and trained.shard else []
    metrics = trained.metrics if trained else []
    evidence = run.extensions.evidence.build_evidence(
        [*learned, *rollouts], train_metrics=metrics, measured=measured
    )
    return evidence.metric(metric)


def _measured(
    run: Run, collected: Collected, rollouts: list[Rollout]
) -> dict[str, dict[str, float]]:
    try:
        return read_by(run, collected.tree, rollouts)
    except CandidateError:  # a diagnostic may fail on attempts of another harness
        return {}
