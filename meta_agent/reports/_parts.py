"""The parts of a `RunState`, each read once from recorded JSON.

Reading is tolerant: a field that is missing, or has another type, is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Self

from pydantic import (
    BeforeValidator,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.dataclasses import dataclass as read_dataclass

from meta_agent.core.protocols import JSON, Effect


def _or(empty: Any) -> WrapValidator:
    """Returns a validator that reads a value of another type as `empty`."""

    def read(value: Any, parse: ValidatorFunctionWrapHandler) -> Any:
        try:
            return parse(value)
        except ValidationError:
            return empty

    return WrapValidator(read)


def _listed(value: Any, kind: type) -> tuple[Any, ...]:
    items = value if isinstance(value, list | tuple) else ()
    return tuple(item for item in items if isinstance(item, kind))


def _dicts(value: Any) -> tuple[Mapping[str, Any], ...]:
    return _listed(value, dict)


Words = Annotated[str, Strict(), _or("")]
Count = Annotated[int, Strict(), _or(0)]
Truth = Annotated[bool, Strict(), _or(False)]
Share = Annotated[float | None, Strict(), _or(None)]
Whole = Annotated[int | None, Strict(), _or(None)]
Ends = Annotated[tuple[Annotated[float, Strict()], Annotated[float, Strict()]] | None, _or(None)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: _listed(value, str))]
Fields = Annotated[Mapping[str, Any], _or({})]
Document = Annotated[dict[str, Any] | None, _or(None)]
Documents = Annotated[list[dict[str, Any]], BeforeValidator(lambda value: list(_dicts(value)))]
Text = Annotated[str | None, Strict(), _or(None)]
_number: Final = TypeAdapter[float | None](Share).validate_python
_whole: Final = TypeAdapter[int | None](Whole).validate_python


def count_of(value: Any) -> int:
    """Returns a recorded count; 0 if it is missing or no whole number."""
    return _whole(value) or 0


def short_id(candidate: str) -> str:
    """Returns a candidate's id without its run: `g1/c2`."""
    return "/".join(candidate.split("/")[-2:])


class Recorded:
    """Base class of a run's records: `parse` reads a ledger step's outcome, `to_json` writes it."""

    __slots__ = ()

    @classmethod
    def parse(cls, outcome: Mapping[str, Any]) -> Self:
        read: Self = TypeAdapter(cls).validate_python(dict(outcome))
        return read

    def to_json(self) -> dict[str, JSON]:
        document: dict[str, JSON] = TypeAdapter(type(self)).dump_python(
            self, mode="json", by_alias=True
        )
        return document


@read_dataclass(frozen=True, slots=True)
class Measured(Recorded):
    """Success rates on a split as shares from 0 to 1, with the number of attempts."""

    split: Words = ""
    n: Count = 0
    success: Share = None
    clean_success: Share = None
    ci: Ends = None  # of clean success
    reads: Annotated[
        int, Strict(), _or(1), Field(validation_alias="vault_reads_in_workspace", exclude=True)
    ] = 1
    """How many runs of the workspace had read the vault by this measurement, itself included."""
    seed: Annotated[Whole, Field(serialization_alias="training_seed")] = None
    steps: Annotated[Whole, Field(serialization_alias="training_steps")] = None
    """Steps of the training whose weights were measured; None in older records."""

    @property
    def training(self) -> str:
        """Returns seed and steps of the measured weights' training; empty if none is recorded."""
        if not self.steps:
            return ""
        if self.seed is None:
            return f"{self.steps} steps of training"
        return f"training seed {self.seed}, {self.steps} steps"


@read_dataclass(frozen=True, slots=True)
class VersionView(Recorded):
    """A version of the harness that a run started with or promoted, with its measurement."""

    version: Words = ""
    generation: Count = 0
    commit: Words = ""
    policy: Words = ""
    candidate: Text = None
    undone: Truth = False
    measured: Measured | None = None


@read_dataclass(frozen=True, slots=True)
class CellView(Recorded):
    """A cell: candidates that were trained together, and their result on the search split."""

    generation: Count = 0
    name: Words = ""
    members: Names = ()
    commit: Words = ""
    clean_success: Share = None
    delta: Share = None
    valid: Truth = False
    why: Words = ""
    chosen: Truth = False


@read_dataclass(slots=True)
class CandidateView(Recorded):
    """A candidate with its checks, measurements, verdict and merge, as reports show them."""

    id: Words = ""
    generation: Count = 0
    index: Count = 0
    ref: Words = ""
    commit: Words = ""
    base: Words = ""
    factor: Words = ""
    hypothesis: Fields = field(default_factory=dict)
    paths: Names = ()
    diff: Words = ""
    screens: Documents = field(default_factory=list)
    lives: Documents = field(default_factory=list)
    verdict: Document = None
    merge: Document = None
    declined: Text = None  # what a person said against its merge
    reverted: Text = None  # the commit that took it back

    @property
    def short_id(self) -> str:
        """Returns the candidate's id without its run: `g1/c2`."""
        return short_id(self.id)

    @property
    def run(self) -> str:
        return self.id.removesuffix(self.short_id).rstrip("/")

    @property
    def kind(self) -> str:
        """Returns the verdict's name, or `pending`."""
        return str((self.verdict or {}).get("kind") or "pending")

    @property
    def reasons(self) -> list[str]:
        return [str(reason) for reason in (self.verdict or {}).get("reasons") or ()]

    @property
    def screened_out(self) -> bool:
        return bool((self.verdict or {}).get("screened_out"))

    @property
    def label(self) -> str:
        """Returns the candidate's factor, or the factors of a combined change joined by `+`."""
        return "+".join(map(str, self.hypothesis.get("factors") or ())) or self.factor

    @property
    def share(self) -> Effect | None:
        """Returns what the candidate added to its bundle's gain on the search split, or None."""
        evidence = (self.verdict or {}).get("evidence")
        return parse_effect(evidence.get("share")) if isinstance(evidence, dict) else None

    @property
    def attribution(self) -> Mapping[str, Any] | None:
        """Returns the record of what harness and policy added to a merged gain, or None."""
        attribution = (self.merge or {}).get("attribution")
        return attribution if isinstance(attribution, dict) else None

    @property
    def statement(self) -> str:
        return str(self.hypothesis.get("statement", ""))

    @property
    def change(self) -> str:
        """Returns what the hypothesis changes, without what it predicts."""
        return self.statement.removeprefix("if ").partition(" then ")[0]

    @property
    def effect(self) -> Effect | None:
        return parse_effect((self.verdict or {}).get("effect"))

    @property
    def estimate(self) -> Effect | None:
        """Returns the effect in the candidate's verdict, else its `share`, or None."""
        return self.effect or self.share

    def answers_to(self, name: str) -> bool:
        """Returns True if `name` ends the candidate's id or starts its commit (over 5 digits)."""
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
            "effect": None if effect is None else asdict(effect),
            "share": None if self.share is None else asdict(self.share),
            "screened_out": self.screened_out,
            "merge": (self.merge or {}).get("commit"),
            "declined": self.declined,
            "reverted": self.reverted,
            "attribution": dict(self.attribution) if self.attribution else None,
        }

    def full_json(self) -> dict[str, JSON]:
        """Returns the document of `why --json`, with every number behind the verdict."""
        return {
            "schema_version": 1,
            **self.to_json(),
            "paths": list(self.paths),
            "screens": self.screens,
            "lives": self.lives,
            "decision": self.verdict,
            "merged": self.merge,
        }


@read_dataclass(frozen=True, slots=True)
class RefusedView(Recorded):
    """A proposed candidate that was refused before any test, with the reason."""

    generation: Count = 0
    statement: Words = ""
    code: Annotated[str, Strict(), Field(min_length=1), _or("unknown")] = "unknown"
    """The typed reason, e.g. `path_outside_allowlist`."""
    reason: Words = ""

    @classmethod
    def parse_all(cls, proposal: Mapping[str, Any]) -> list[Self]:
        of = {"generation": proposal.get("generation")}
        return [cls.parse({**draft, **of}) for draft in _dicts(proposal.get("refused"))]


@read_dataclass(frozen=True, slots=True)
class AnalysisView(Recorded):
    """An analyst's words on a generation: a note for later ones, or why nothing was proposed."""

    generation: Count = 0
    nothing: Words = ""  # the reason if there was nothing to try
    noted: Words = ""  # a note for later analysts


def _exemplars(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Returns example attempts from a list, or from a dictionary of lists by failure mode."""
    if not isinstance(value, dict):
        return _dicts(value)
    return tuple({"mode": mode, **item} for mode, items in value.items() for item in _dicts(items))


def _layers(value: Any) -> dict[str, Any]:
    layers = value if isinstance(value, dict) else {}
    return {name: part for name, part in layers.items() if isinstance(part, dict)}


def _quoted(value: Any) -> dict[str, Any]:
    quoted = value if isinstance(value, dict) else {}
    return {
        str(k): tuple(map(str, lines)) for k, lines in quoted.items() if isinstance(lines, list)
    }


@read_dataclass(frozen=True, slots=True)
class EvidenceView(Recorded):
    """The evidence of one generation: metrics by layer, alerts, and example attempts."""

    generation: Count = 0
    version: Words = ""
    layers: Annotated[Mapping[str, Mapping[str, Any]], BeforeValidator(_layers)] = field(
        default_factory=dict
    )
    alerts: Annotated[tuple[Mapping[str, Any], ...], BeforeValidator(_dicts)] = ()
    exemplars: Annotated[tuple[Mapping[str, Any], ...], BeforeValidator(_exemplars)] = ()
    quoted: Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(_quoted)] = field(
        default_factory=dict
    )

    def behind(self, alert: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns quotes of attempts behind an alert; empty for all but conversation metrics."""
        return self.quoted.get(str(alert.get("metric", "")).removeprefix("conversation."), ())


@read_dataclass(frozen=True, slots=True)
class SkillView(Recorded):
    """A skill (a lesson for later runs) that this run wrote."""

    name: Words = ""
    path: Words = ""
    candidate: Text = None
    description: Words = ""
    negative: Truth = False
    status: Words = ""
    worth: Words = ""


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """The metrics of one step of a training; `series` names the version or candidate and seed."""

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
        return cls(str(payload.get("series", "")), count_of(payload.get("step")), values)


def parse_effect(value: Any) -> Effect | None:
    """Returns an effect as a verdict records it, or None if it is absent or incomplete."""
    if not isinstance(value, dict):
        return None
    delta, low, high = (_number(value.get(name)) for name in ("delta", "ci_low", "ci_high"))
    if delta is None or low is None or high is None:
        return None
    return Effect(
        delta=delta,
        ci_low=low,
        ci_high=high,
        pairs=count_of(value.get("pairs")),
        training_seeds=count_of(value.get("training_seeds")),
        p_improvement=_number(value.get("p_improvement")),
        shrunk=_number(value.get("shrunk")),
    )
