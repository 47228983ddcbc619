"""`build_evidence`: one pass over rollouts, four layers out.

Promises: linear time, memory by group and task but not by rollout; records without tokens, rewards
or groups are fine, and what cannot be known is absent rather than 0. Where some rollouts are of an
evaluation split and some of `train`, score and behaviour are read from the former and signal from
the latter, for they were sampled to be measured and to be learned from, respectively.

Not covered: what to do about it (`proposers`), and whether a score is valid (`gate`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meta_agent.core.evidence import Alert, Comparability, Evidence
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.evidence._metrics import limit_alerts
from meta_agent.readers.evidence._rules import rule_alerts
from meta_agent.readers.evidence.conversation import ConversationLayer
from meta_agent.readers.evidence.layers._behaviour import BehaviourLayer
from meta_agent.readers.evidence.layers._score import ScoreLayer
from meta_agent.readers.evidence.layers._signal import SignalLayer, trends
from meta_agent.readers.evidence.reference import reference_of


@dataclass(slots=True)
class _SplitLayers:
    """The metrics of one kind of rollouts: those for training, or those for evaluation."""

    score: ScoreLayer = field(default_factory=ScoreLayer)
    signal: SignalLayer = field(default_factory=SignalLayer)
    behaviour: BehaviourLayer = field(default_factory=BehaviourLayer)
    conversation: ConversationLayer = field(default_factory=ConversationLayer)
    domains: set[str] = field(default_factory=set)
    hashes: set[str] = field(default_factory=set)
    tasks: set[tuple[str, str]] = field(default_factory=set)

    def add(self, rollout: Rollout) -> None:
        self.score.add(rollout)
        self.signal.add(rollout)
        self.behaviour.add(rollout)
        self.conversation.add(rollout)
        self.domains.add(rollout.domain)
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
    probed: Mapping[str, float] | None = None,
    tasks: Mapping[str, Mapping[str, JSON]] | None = None,
) -> Evidence:
    """Returns metrics with alerts, computed from rollouts, training and the harness's diagnostics.

    Args:
        rollouts: any splits, in any order, read once.
        train_metrics: one row per training step, in order.
        measured: the metrics of each diagnostic, by its name. Untrusted: numbers that are not
            finite are left out and counted.
        baseline: the evidence of the version that changes are reported against.
        probed: metrics of the harness's filter and curriculum, from calls of these functions.
        tasks: the inputs that each task gives the agent, by task key; may lack tasks.
    """
    trained = _SplitLayers(conversation=ConversationLayer(tasks or {}))
    evaluated = _SplitLayers(conversation=ConversationLayer(tasks or {}))
    for rollout in rollouts:
        (trained if rollout.split == "train" else evaluated).add(rollout)
    judged, learned = (
        (trained if evaluated.empty else evaluated),
        (evaluated if trained.empty else trained),
    )
    numbers, notes = _measured(measured or {})
    evidence = Evidence(
        score=judged.score.metrics(),
        signal=learned.signal.metrics()
        | trends(train_metrics or ())
        | _apart(trained, evaluated)
        | dict(probed or {}),
        behaviour=judged.behaviour.metrics(),
        conversation=judged.conversation.metrics(),
        measured=numbers,
        per_task={t: (v.n, v.solved, v.clean) for t, v in sorted(judged.score.tasks.items())},
        evaluator_hashes=tuple(sorted(judged.hashes)),
        tasks_hash=hashlib.sha256(repr(sorted(judged.tasks)).encode()).hexdigest()[:16],
        notes=notes,
        domain="+".join(sorted(judged.domains)),
        quoted=judged.conversation.quoted(),
    )
    return _alerted(_against(evidence, baseline), baseline)


def _apart(trained: _SplitLayers, evaluated: _SplitLayers) -> dict[str, float]:
    """Returns metrics of the training rollouts, if other rollouts were measured."""
    if trained.empty or evaluated.empty:
        return {}
    score, conduct = trained.score.metrics(), trained.behaviour.metrics()
    metrics = {
        "train_success": score.get("success"),
        "train_clean_success": score.get("clean_success"),
        "train_leak_use": conduct.get("leak_use"),
        "train_truncation": conduct.get("truncation"),
        "train_sequence_diversity": conduct.get("sequence_diversity"),
        "train_mean_logprob": conduct.get("mean_logprob"),
    }
    return {name: value for name, value in metrics.items() if value is not None}


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


# --- the version layer --------------------------------------------------------------------------


def _against(evidence: Evidence, baseline: Evidence | None) -> Evidence:
    """Returns the evidence with its changes against the baseline, if the two are comparable."""
    if baseline is None:
        return evidence
    notes: list[str] = []
    hashes = evidence.evaluator_hashes
    if hashes != baseline.evaluator_hashes or len(hashes) != 1:
        notes.append("incomparable: measured under different evaluators")
    if evidence.tasks_hash != baseline.tasks_hash:
        notes.append("incomparable: measured on different tasks")
    state: Comparability = "incomparable" if notes else "comparable"
    changes = {} if notes else _changes(evidence, baseline)
    return replace(evidence, version=changes, comparability=state, notes=(*evidence.notes, *notes))


def _changes(evidence: Evidence, base: Evidence) -> dict[str, float]:
    now, before = evidence.metrics(), base.metrics()
    changes = {f"change.{name}": now[name] - before[name] for name in now.keys() & before.keys()}
    fixed = broken = 0
    for task, (_, _, clean) in evidence.per_task.items():
        was = base.per_task.get(task, (0, 0, 0))[2]
        fixed, broken = fixed + (clean > was), broken + (clean < was)
    return {
        "tasks_fixed": float(fixed),
        "tasks_broken": float(broken),
        **dict(sorted(changes.items())),
    }


def _alerted(evidence: Evidence, baseline: Evidence | None) -> Evidence:
    """Returns the evidence with its alerts, less those of a clean harness.

    Of the conversation, what is usual depends on the scaffold. So without a limit of its own, a
    metric there is compared with what the clean harness shows.
    """
    reference = reference_of(evidence.domain, trained=evidence.trained)
    beyond = reference.beyond(evidence.metrics())
    alerts = limit_alerts(beyond)
    alerted = {alert.metric for alert in alerts}
    for name, value in beyond.items() if reference.is_measured else ():
        if name.startswith("conversation.") and name not in alerted:
            low, high = reference.ranges.get(name, (0.0, 0.0))
            side, limit = ("above", high) if value > high else ("below", low)
            message = f"unlike a clean harness: {value:.3g} is {side} {limit:.3g}"
            alerts.append(Alert(name, value, "WARN", limit, "conversation", message))
    rules = [fired for fired in rule_alerts(evidence, baseline) if not reference.raises(fired)]
    return replace(evidence, alerts=(*alerts, *rules))
