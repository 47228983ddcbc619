"""`Evidence`: what a generation's rollouts show, as plain numbers by layer, with alerts.

A layer is a group of metrics. A metric's full name is `layer.name`, e.g. `signal.dead_group_ratio`.
`clean_success` and `success` alone mean the score layer. There are only numbers, so that two
versions can be compared metric by metric, and a hypothesis can name the metric that it must move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from meta_agent.core.protocols import JSON

Level = Literal["WARN", "CRITICAL"]
Comparability = Literal["no-baseline", "comparable", "incomparable"]
LAYERS = ("score", "signal", "behaviour", "conversation", "version", "measured")


@dataclass(frozen=True, slots=True)
class Alert:
    """A metric beyond its threshold, or a problem found by a rule. `source` says who defined it."""

    metric: str  # full name, or "rule.NAME"
    value: float
    level: Level
    threshold: float
    layer: str
    message: str
    source: str = "own"

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The metrics of a harness version by layer (a group of metrics), with alerts on them."""

    score: Mapping[str, float]
    signal: Mapping[str, float]
    behaviour: Mapping[str, float]
    conversation: Mapping[str, float] = field(default_factory=dict)
    version: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()
    per_task: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # n, solved, clean
    evaluator_hashes: tuple[str, ...] = ()
    tasks_hash: str = ""
    comparability: Comparability = "no-baseline"
    notes: tuple[str, ...] = ()
    domain: str = ""
    quoted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Attempts that show what the conversation audit counts, by what it counts."""
    foretells: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    """Admitted diagnostics by full name, with the AUC [low, high] by which they were admitted."""

    @property
    def trained(self) -> bool:
        """Returns True if the policy behind these metrics was trained with this harness version."""
        return "train.steps" in self.signal

    def metric(self, name: str) -> float | None:
        """Returns a metric by full name, `layer.name`, or by name in any layer; None if missing."""
        layer, dot, rest = name.partition(".")
        if dot and layer in LAYERS:
            value: float | None = getattr(self, layer).get(rest)
            return value
        return next((getattr(self, at)[name] for at in LAYERS if name in getattr(self, at)), None)

    def metrics(self) -> dict[str, float]:
        """Returns all metrics by full name, `layer.name`, without the changes from a baseline."""
        return {
            f"{layer}.{name}": value
            for layer in LAYERS
            if layer != "version"
            for name, value in getattr(self, layer).items()
        }

    def alert(self, metric: str) -> Alert | None:
        """Returns the alert whose metric or rule is `metric`, or None if none was raised."""
        return next((alert for alert in self.alerts if alert.metric == metric), None)

    def to_json(self) -> dict[str, JSON]:
        return {
            "schema_version": 1,
            "layers": {layer: dict(getattr(self, layer)) for layer in LAYERS},
            "alerts": [alert.to_json() for alert in self.alerts],
            "per_task": {task: list(tally) for task, tally in self.per_task.items()},
            "evaluator_hashes": list(self.evaluator_hashes),
            "tasks_hash": self.tasks_hash,
            "comparability": self.comparability,
            "notes": list(self.notes),
            "domain": self.domain,
            "quoted": {kind: list(attempts) for kind, attempts in self.quoted.items()},
            "foretells": {name: list(auc) for name, auc in self.foretells.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Evidence:
        return cls(
            **{layer: dict(data["layers"].get(layer, {})) for layer in LAYERS},
            alerts=tuple(Alert(**alert) for alert in data["alerts"]),
            per_task={t: (v[0], v[1], v[2]) for t, v in data["per_task"].items()},
            evaluator_hashes=tuple(data["evaluator_hashes"]),
            tasks_hash=data["tasks_hash"],
            comparability=data["comparability"],
            notes=tuple(data["notes"]),
            domain=data.get("domain", ""),
            quoted={kind: tuple(attempts) for kind, attempts in data.get("quoted", {}).items()},
            foretells={name: (*auc,) for name, auc in data.get("foretells", {}).items()},
        )


@dataclass(slots=True)
class Mean:
    """A running mean and variance (Welford). `refused` counts values that are not finite."""

    n: int = 0
    mean: float = 0.0
    _m2: float = 0.0
    refused: int = 0

    def add(self, value: float) -> None:
        if not math.isfinite(value):
            self.refused += 1
            return
        self.n += 1
        step = value - self.mean
        self.mean += step / self.n
        self._m2 += step * (value - self.mean)

    @property
    def std(self) -> float:
        """Returns the population standard deviation, or 0 without values."""
        return math.sqrt(max(0.0, self._m2) / self.n) if self.n else 0.0

    @property
    def variance(self) -> float:
        return self.std**2
