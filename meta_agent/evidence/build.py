"""`build_evidence`: one pass over rollouts, four layers out.

Promises: linear time, memory by group and task but not by rollout; records without tokens, rewards
or groups are fine, and what cannot be known is absent rather than 0. Where some rollouts are of an
evaluation split and some of `train`, score and behaviour are read from the former and signal from
the latter, for they were sampled to be measured and to be learned from, respectively.

Not covered: what to do about it (`agents`), and whether a score is valid (`gate`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meta_agent.evidence._behaviour import BehaviourLayer
from meta_agent.evidence._record import Comparability, Evidence
from meta_agent.evidence._rules import rule_alerts
from meta_agent.evidence._score import ScoreLayer
from meta_agent.evidence._signal import SignalLayer, trends
from meta_agent.evidence._thresholds import threshold_alerts
from meta_agent.protocols import JSON, Rollout


@dataclass(slots=True)
class _Side:
    """The layers of one kind of rollouts: those that trained, or those that measured."""

    score: ScoreLayer = field(default_factory=ScoreLayer)
    signal: SignalLayer = field(default_factory=SignalLayer)
    behaviour: BehaviourLayer = field(default_factory=BehaviourLayer)
    hashes: set[str] = field(default_factory=set)
    tasks: set[tuple[str, str]] = field(default_factory=set)

    def add(self, rollout: Rollout) -> None:
        self.score.add(rollout)
        self.signal.add(rollout)
        self.behaviour.add(rollout)
        self.hashes.add(rollout.evaluator_hash)
        self.tasks.add((rollout.task_key, rollout.task_hash))

    @property
    def empty(self) -> bool:
        return not self.hashes


def build_evidence(
    rollouts: Iterable[Rollout],
    *,
    train_metrics: Sequence[Mapping[str, JSON]] | None = None,
    measured: Mapping[str, Mapping[str, float]] | None = None,
    baseline: Evidence | None = None,
) -> Evidence:
    """Reads rollouts, training metrics and the harness's own diagnostics into one record.

    Args:
        rollouts: any splits, in any order, read once.
        train_metrics: one row per training step, in order.
        measured: by diagnostic, what it measured. Untrusted: numbers that are not finite are left
            out and counted.
        baseline: the version to report changes against.
    """
    trained, seen = _Side(), _Side()
    for rollout in rollouts:
        (trained if rollout.split == "train" else seen).add(rollout)
    judged, learned = (trained if seen.empty else seen), (seen if trained.empty else trained)
    numbers, notes = _measured(measured or {})
    evidence = Evidence(
        score=judged.score.metrics(),
        signal=learned.signal.metrics() | trends(train_metrics or ()) | _apart(trained, seen),
        behaviour=judged.behaviour.metrics(),
        measured=numbers,
        per_task={t: (v.n, v.solved, v.clean) for t, v in sorted(judged.score.tasks.items())},
        evaluator_hashes=tuple(sorted(judged.hashes)),
        tasks_hash=_tasks_hash(judged.tasks),
        notes=notes,
    )
    return _alerted(_against(evidence, baseline), baseline)


def _apart(trained: _Side, seen: _Side) -> dict[str, float]:
    """What training saw, where it differs from what was measured."""
    if trained.empty or seen.empty:
        return {}
    score, conduct = trained.score.metrics(), trained.behaviour.metrics()
    found = {
        "train_success": score.get("success"),
        "train_clean_success": score.get("clean_success"),
        "train_leak_use": conduct.get("leak_use"),
        "train_truncation": conduct.get("truncation"),
        "train_sequence_diversity": conduct.get("sequence_diversity"),
        "train_mean_logprob": conduct.get("mean_logprob"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _measured(
    measured: Mapping[str, Mapping[str, float]],
) -> tuple[dict[str, float], tuple[str, ...]]:
    numbers: dict[str, float] = {}
    refused = 0
    for diagnostic, values in sorted(measured.items()):
        for name, value in sorted(values.items()):
            if type(value) in (int, float) and math.isfinite(value):
                numbers[f"{diagnostic}.{name}"] = float(value)
            else:
                refused += 1
    notes = (f"{refused} measured values were not finite numbers",) if refused else ()
    return numbers, notes


def _tasks_hash(tasks: set[tuple[str, str]]) -> str:
    return hashlib.sha256(repr(sorted(tasks)).encode()).hexdigest()[:16]


# --- the version layer --------------------------------------------------------------------------


def _against(evidence: Evidence, baseline: Evidence | None) -> Evidence:
    if baseline is None:
        return evidence
    state, notes = _comparability(evidence, baseline)
    changes = _changes(evidence, baseline) if state == "comparable" else {}
    return replace(evidence, version=changes, comparability=state, notes=(*evidence.notes, *notes))


def _comparability(evidence: Evidence, base: Evidence) -> tuple[Comparability, tuple[str, ...]]:
    notes = []
    if evidence.evaluator_hashes != base.evaluator_hashes or len(evidence.evaluator_hashes) != 1:
        notes.append("incomparable: measured under different evaluators")
    if evidence.tasks_hash != base.tasks_hash:
        notes.append("incomparable: measured on different tasks")
    return ("incomparable" if notes else "comparable"), tuple(notes)


def _changes(evidence: Evidence, base: Evidence) -> dict[str, float]:
    now, before = evidence.metrics(), base.metrics()
    found = {f"change.{name}": now[name] - before[name] for name in now.keys() & before.keys()}
    fixed = broken = 0
    for task, (_, _, clean) in evidence.per_task.items():
        was = base.per_task.get(task, (0, 0, 0))[2]
        fixed, broken = fixed + (clean > was), broken + (clean < was)
    return {
        "tasks_fixed": float(fixed),
        "tasks_broken": float(broken),
        **dict(sorted(found.items())),
    }


def _alerted(evidence: Evidence, baseline: Evidence | None) -> Evidence:
    own = threshold_alerts(evidence.metrics())
    return replace(evidence, alerts=(*own, *rule_alerts(evidence, baseline)))
