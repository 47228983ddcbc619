"""The parts of a `RunState`, each read once from recorded JSON, tolerantly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from meta_agent.protocols import JSON, Effect


@dataclass(frozen=True, slots=True)
class Measured:
    """A success rate with the number it rests on. Shares, not points."""

    split: str
    n: int
    success: float | None
    clean_success: float | None
    ci: tuple[float, float] | None  # of clean success
    reads: int = 1
    """Runs of the workspace that had measured on the vault by then."""
    seed: int | None = None
    steps: int | None = None
    """Of the training whose weights were measured; None: older records do not say."""

    @classmethod
    def parse(cls, outcome: Mapping[str, Any]) -> Self:
        low_high = outcome.get("ci")
        return cls(
            split=str(outcome.get("split", "")),
            n=int(outcome.get("n") or 0),
            success=_number(outcome.get("success")),
            clean_success=_number(outcome.get("clean_success")),
            ci=_pair(low_high),
            reads=int(outcome.get("vault_reads_in_workspace") or 1),
            seed=_whole(outcome.get("seed")),
            steps=_whole(outcome.get("steps")),
        )

    @property
    def training(self) -> str:
        """Which training was read; nothing where there was none, or none is recorded."""
        if not self.steps:
            return ""
        if self.seed is None:
            return f"{self.steps} steps of training"
        return f"training seed {self.seed}, {self.steps} steps"

    def to_json(self) -> dict[str, JSON]:
        return {
            "split": self.split,
            "n": self.n,
            "success": self.success,
            "clean_success": self.clean_success,
            "ci": list(self.ci) if self.ci else None,
            "training_seed": self.seed,
            "training_steps": self.steps,
        }


@dataclass(frozen=True, slots=True)
class VersionView:
    """One promoted version (or the first one)."""

    version: str
    generation: int
    commit: str
    policy: str
    candidate: str | None
    measured: Measured | None
    undone: bool

    @property
    def column(self) -> int:
        """Its place on the main line: what generation g made stands after generation g."""
        return 0 if self.candidate is None else self.generation + 1

    @classmethod
    def parse(cls, outcome: Mapping[str, Any], measured: Measured | None) -> Self:
        return cls(
            version=str(outcome.get("version", "")),
            generation=int(outcome.get("generation") or 0),
            commit=str(outcome.get("commit") or outcome.get("harness_commit") or ""),
            policy=str(outcome.get("policy") or ""),
            candidate=outcome.get("candidate"),
            measured=measured,
            undone=bool(outcome.get("undone")),
        )

    def to_json(self) -> dict[str, JSON]:
        return {
            "version": self.version,
            "generation": self.generation,
            "commit": self.commit,
            "policy": self.policy,
            "candidate": self.candidate,
            "undone": self.undone,
            "measured": self.measured.to_json() if self.measured else None,
        }


@dataclass(slots=True)
class CandidateView:
    """A candidate with all that was found out about it."""

    id: str
    generation: int
    index: int
    ref: str
    commit: str
    base: str
    factor: str
    hypothesis: Mapping[str, Any]
    paths: tuple[str, ...]
    diff: str
    screens: list[dict[str, Any]] = field(default_factory=list)
    lives: list[dict[str, Any]] = field(default_factory=list)
    verdict: dict[str, Any] | None = None
    merge: dict[str, Any] | None = None
    declined: str | None = None  # what a person said against its merge
    reverted: str | None = None  # the commit that took it back

    @classmethod
    def parse(cls, outcome: Mapping[str, Any]) -> Self:
        hypothesis = outcome.get("hypothesis")
        return cls(
            id=str(outcome.get("id", "")),
            generation=int(outcome.get("generation") or 0),
            index=int(outcome.get("index") or 0),
            ref=str(outcome.get("ref") or ""),
            commit=str(outcome.get("commit") or ""),
            base=str(outcome.get("base") or ""),
            factor=str(outcome.get("factor") or ""),
            hypothesis=hypothesis if isinstance(hypothesis, dict) else {},
            paths=tuple(str(path) for path in outcome.get("paths") or ()),
            diff=str(outcome.get("diff") or ""),
            verdict=outcome["verdict"] if isinstance(outcome.get("verdict"), dict) else None,
        )

    @property
    def short_id(self) -> str:
        """The id without the run: `g1/c2`."""
        return "/".join(self.id.split("/")[-2:])

    @property
    def run(self) -> str:
        return self.id.removesuffix(self.short_id).rstrip("/")

    @property
    def kind(self) -> str:
        """The verdict's name, or `pending`."""
        return str((self.verdict or {}).get("kind") or "pending")

    @property
    def reasons(self) -> list[str]:
        return [str(reason) for reason in (self.verdict or {}).get("reasons") or ()]

    @property
    def screened_out(self) -> bool:
        return bool((self.verdict or {}).get("screened_out"))

    @property
    def label(self) -> str:
        """Its factor, or both of a combined change."""
        return "+".join(map(str, self.hypothesis.get("factors") or ())) or self.factor

    @property
    def share(self) -> Effect | None:
        """What it adds to its bundle, on the search split: an explanation."""
        evidence = (self.verdict or {}).get("evidence")
        return parse_effect(evidence.get("share")) if isinstance(evidence, dict) else None

    @property
    def attribution(self) -> Mapping[str, Any] | None:
        """What of a merged gain the harness did, and what the policy."""
        told = (self.merge or {}).get("attribution")
        return told if isinstance(told, dict) else None

    @property
    def statement(self) -> str:
        return str(self.hypothesis.get("statement", ""))

    @property
    def effect(self) -> Effect | None:
        return parse_effect((self.verdict or {}).get("effect"))

    def answers_to(self, name: str) -> bool:
        """Whether a person who typed `name` means this candidate."""
        by_commit = len(name) >= 6 and self.commit.startswith(name)
        return by_commit or self.id == name or self.id.endswith("/" + name)

    def to_json(self) -> dict[str, JSON]:
        prediction = {
            name: self.hypothesis.get(name) for name in ("metric", "direction", "expected_delta")
        }
        effect = self.effect
        return {
            "id": self.id,
            "ref": self.ref,
            "commit": self.commit,
            "factor": self.factor,
            "hypothesis": dict(self.hypothesis),
            "prediction": prediction,
            "verdict": None if self.verdict is None else self.kind,
            "reasons": self.reasons,
            "effect": None if effect is None else effect_json(effect),
            "share": None if self.share is None else effect_json(self.share),
            "screened_out": self.screened_out,
            "merge": (self.merge or {}).get("commit"),
            "declined": self.declined,
            "reverted": self.reverted,
            "attribution": dict(self.attribution) if self.attribution else None,
        }

    def full_json(self) -> dict[str, JSON]:
        """With every number behind the verdict: what `why` shows."""
        return {
            "schema_version": 1,
            **self.to_json(),
            "paths": list(self.paths),
            "screens": self.screens,
            "lives": self.lives,
            "decision": self.verdict,
            "merged": self.merge,
        }


class BlamedLine(NamedTuple):
    """One line of a file, and what brought it; of no candidate where the host wrote it."""

    number: int
    text: str
    commit: str
    subject: str
    candidate: CandidateView | None


@dataclass(frozen=True, slots=True)
class RefusedView:
    """A draft that was never admitted: no test was paid for it."""

    generation: int
    statement: str
    code: str  # the typed reason, e.g. `path_outside_allowlist`
    reason: str

    @classmethod
    def parse_all(cls, proposal: Mapping[str, Any]) -> list[Self]:
        generation = int(proposal.get("generation") or 0)
        return [
            cls(
                generation=generation,
                statement=str(one.get("statement") or ""),
                code=str(one.get("code") or "unknown"),
                reason=str(one.get("reason") or ""),
            )
            for one in _dicts(proposal.get("refused"))
        ]

    def to_json(self) -> dict[str, JSON]:
        return {
            "generation": self.generation,
            "statement": self.statement,
            "code": self.code,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class AnalysisView:
    """What a generation's analyst said beside its ideas."""

    generation: int
    nothing: str  # why there was nothing to try, if so
    noted: str  # for the analysts after it

    @classmethod
    def parse(cls, proposal: Mapping[str, Any]) -> Self:
        nothing, noted = (str(proposal.get(name) or "") for name in ("nothing", "noted"))
        return cls(int(proposal.get("generation") or 0), nothing, noted)

    def to_json(self) -> dict[str, JSON]:
        return {"generation": self.generation, "nothing": self.nothing, "noted": self.noted}


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """One generation's health report."""

    generation: int
    version: str
    layers: Mapping[str, Mapping[str, Any]]
    alerts: tuple[Mapping[str, Any], ...]
    exemplars: tuple[Mapping[str, Any], ...]
    quoted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def behind(self, alert: Mapping[str, Any]) -> tuple[str, ...]:
        """The attempts that show what an alert on the conversation is about."""
        return self.quoted.get(str(alert.get("metric", "")).removeprefix("conversation."), ())

    @classmethod
    def parse(cls, outcome: Mapping[str, Any]) -> Self:
        layers, quoted = outcome.get("layers"), outcome.get("quoted")
        return cls(
            generation=int(outcome.get("generation") or 0),
            version=str(outcome.get("version", "")),
            layers={name: part for name, part in (layers or {}).items() if isinstance(part, dict)},
            alerts=_dicts(outcome.get("alerts")),
            exemplars=_exemplars(outcome.get("exemplars")),
            quoted={
                str(kind): tuple(map(str, told))
                for kind, told in (quoted if isinstance(quoted, dict) else {}).items()
                if isinstance(told, list)
            },
        )

    def to_json(self) -> dict[str, JSON]:
        return {
            "generation": self.generation,
            "version": self.version,
            "layers": {name: dict(part) for name, part in self.layers.items()},
            "alerts": [dict(alert) for alert in self.alerts],
            "exemplars": [dict(exemplar) for exemplar in self.exemplars],
            "quoted": {kind: list(told) for kind, told in self.quoted.items()},
        }


@dataclass(frozen=True, slots=True)
class SkillView:
    """A skill that this run wrote."""

    name: str
    path: str
    candidate: str | None
    description: str
    negative: bool
    status: str = ""
    worth: str = ""

    @classmethod
    def parse(cls, outcome: Mapping[str, Any]) -> Self:
        return cls(
            name=str(outcome.get("name", "")),
            path=str(outcome.get("path", "")),
            candidate=outcome.get("candidate"),
            description=str(outcome.get("description") or ""),
            negative=bool(outcome.get("negative")),
            status=str(outcome.get("status") or ""),
            worth=str(outcome.get("worth") or ""),
        )

    def to_json(self) -> dict[str, JSON]:
        return {
            "name": self.name,
            "path": self.path,
            "candidate": self.candidate,
            "description": self.description,
            "negative": self.negative,
            "status": self.status,
            "worth": self.worth,
        }


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """The numbers of one training step of one arm."""

    series: str
    step: int
    values: Mapping[str, float]

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> Self:
        values = {
            name: float(value)
            for name, value in payload.items()
            if name not in ("series", "step")
            and isinstance(value, int | float)
            and not isinstance(value, bool)
        }
        return cls(str(payload.get("series", "")), int(payload.get("step") or 0), values)


def effect_json(effect: Effect) -> dict[str, JSON]:
    """The `effect` object of the interface."""
    return {
        "delta": effect.delta,
        "ci_low": effect.ci_low,
        "ci_high": effect.ci_high,
        "pairs": effect.pairs,
        "training_seeds": effect.training_seeds,
        "p_improvement": effect.p_improvement,
        "shrunk": effect.shrunk,
    }


def parse_effect(value: Any) -> Effect | None:
    """An effect as a verdict records it; None where it is absent or incomplete."""
    if not isinstance(value, dict):
        return None
    delta, low, high = (_number(value.get(name)) for name in ("delta", "ci_low", "ci_high"))
    if delta is None or low is None or high is None:
        return None
    return Effect(
        delta=delta,
        ci_low=low,
        ci_high=high,
        pairs=int(value.get("pairs") or 0),
        training_seeds=int(value.get("training_seeds") or 0),
        p_improvement=_number(value.get("p_improvement")),
        shrunk=_number(value.get("shrunk")),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _pair(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = _number(value[0]), _number(value[1])
    return None if low is None or high is None else (low, high)


def _exemplars(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Either a list, or a dictionary of lists by failure mode."""
    if not isinstance(value, dict):
        return _dicts(value)
    return tuple({"mode": mode, **item} for mode, items in value.items() for item in _dicts(items))


def _dicts(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in value if isinstance(item, dict))
