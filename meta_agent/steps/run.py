"""A run in progress: what every verb needs, and the few records that pass between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from meta_agent.backtest.live import ArmRef, Lab
from meta_agent.config import RunConfig
from meta_agent.errors import CandidateError, ConfigError, Interrupted
from meta_agent.gate import Finding
from meta_agent.history import HarnessRepo, standard_trailers
from meta_agent.ledger import DONE, Ledger
from meta_agent.models.asking.client import Client
from meta_agent.models.chat import ModelClient
from meta_agent.protocols import (
    FACTORS,
    JSON,
    TRAINING_FACTORS,
    Candidate,
    Factor,
    Hypothesis,
    Verdict,
    VerdictKind,
)
from meta_agent.skills import SkillLibrary
from meta_agent.steps.plan import Plan
from meta_agent.view import Display

BY_SCORE: Final = "score"
"""The judge of a verdict that rests on a score alone."""


class Version(NamedTuple):
    """A promoted harness with the policy trained under it (training seed 0, pre-registered)."""

    id: str
    commit: str


class Tested(NamedTuple):
    """A candidate with everything that was found out about it before the live test."""

    candidate: Candidate
    findings: tuple[Finding, ...]

    @property
    def vetoed(self) -> bool:
        """No money is spent on it."""
        return any(finding.severity == "veto" for finding in self.findings)

    @property
    def watches(self) -> bool:
        """It changes what is measured, not what is done: clean success cannot judge it."""
        return self.candidate.factor == "diagnostics"


class Judged(NamedTuple):
    """A verdict with the rows it rests on, so that `verify` can compute it again."""

    verdict: Verdict
    arms: tuple[ArmRef, ArmRef] | None = None  # baseline, candidate


def stopped(findings: tuple[Finding, ...]) -> Judged:
    """INVALID without a comparison: a check stopped the candidate, or it could not be measured."""
    reasons = tuple(f"{f.code}: {f.message}" for f in findings if f.severity == "veto")
    evidence = {"judge": "checks", "findings": [finding.to_json() for finding in findings]}
    return Judged(Verdict(VerdictKind.INVALID, reasons, evidence=evidence))


def failure(error: CandidateError, stage: str = "failed") -> Finding:
    """What a candidate's own code, recipe or sandbox did wrong, as a veto."""
    return Finding(f"{stage}.{error.reason}", "veto", str(error)[:1000])


def machines_failed(evidence: Mapping[str, JSON]) -> bool:
    """Whether a verdict rests on lost rollouts: then it says nothing about the idea."""
    found = evidence.get("findings", ())
    vetoes = [f["code"] for f in found if f["severity"] == "veto" and f["side"] != "baseline"]
    return any(code.startswith("infra.") for code in vetoes)


def proven(verdict: Verdict) -> bool:
    """Whether a verdict rests on a test that may be wrong with a known chance."""
    return verdict.evidence.get("judge") != BY_SCORE


@contextmanager
def must_work(version: Version) -> Iterator[None]:
    """The version that candidates start from has to be measurable: no verdict can come of it."""
    try:
        yield
    except CandidateError as error:
        raise ConfigError(
            f"the harness {version.id} ({version.commit[:12]}) cannot be measured: {error}",
            hint="mend it in harness_repo/, commit, and begin again with another --seed",
        ) from error


@dataclass(slots=True)
class Run:
    """What every verb needs. `id` prefixes every key in the ledger."""

    id: str
    config: RunConfig
    plan: Plan
    ledger: Ledger
    repo: HarnessRepo
    lab: Lab
    skills: SkillLibrary
    display: Display
    clock: int
    """Seconds since the epoch at the run's start: commits are dated from it, not from now."""
    stopping: Callable[[], bool]
    models: ModelClient | None = None
    """Every model call of the run; None where it asks no model."""

    @property
    def client(self) -> Client | None:
        """The client behind `models`, with what it knows of recordings."""
        return self.models if isinstance(self.models, Client) else None

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What a change may be about: with a frozen policy not what acts through training."""
        trains = self.config.trainable
        return tuple(factor for factor in FACTORS if trains or factor not in TRAINING_FACTORS)

    def once(self, name: str, kind: str, intent: JSON, work: Callable[[], JSON]) -> JSON:
        """`Ledger.once` under this run's prefix; the place where a drain takes effect."""
        if self.stopping():
            raise Interrupted
        key = name if name.startswith(f"{self.id}/") else f"{self.id}/{name}"
        return self.ledger.once(key, kind, intent, work)

    def phase(self, name: str, detail: str) -> None:
        """Says what happens now (the display also journals it)."""
        self.display.phase(name, detail)

    def note(self, text: str) -> None:
        """A line for the reader (the display also journals it)."""
        self.display.note(text)

    @property
    def finished(self) -> bool:
        """Whether this run was recorded done before: then it is only read."""
        row = self.ledger.run(self.id)
        return row is not None and row.exit_reason == DONE

    def finish(self) -> None:
        """Records the run done."""
        self.ledger.finish_run(self.id, DONE)

    def trailers(self, candidate: str, hypothesis: Hypothesis) -> dict[str, str]:
        """The trailers of a candidate's commits."""
        return standard_trailers(
            run=self.id,
            candidate=candidate,
            factor=hypothesis.label,
            hypothesis=hypothesis.statement,
            assisted_by=f"meta-agent:{self.author}",
        )

    @property
    def author(self) -> str:
        """The model that writes the edits; in a replay the recorded one, so that commits agree."""
        if self.config.meta_model == "rules":
            return "rules"
        return (self.client or self.config).model_of("proposer")

    def date(self, generation: int, index: int) -> int:
        """A commit date that is the same when the step is repeated."""
        return self.clock + generation * 1000 + index


def candidate_to_json(candidate: Candidate) -> dict[str, JSON]:
    """A candidate as the ledger keeps it."""
    return asdict(candidate)


def candidate_from_json(data: dict[str, Any]) -> Candidate:
    """Parses what `candidate_to_json` wrote; keys that later steps added are left alone."""
    told = dict(data["hypothesis"])
    for name in ("risks", "evidence", "skills", "factors"):
        told[name] = tuple(told.get(name, ()))
    known = {name: data[name] for name in Candidate.__dataclass_fields__}
    return Candidate(**{**known, "paths": tuple(data["paths"]), "hypothesis": Hypothesis(**told)})
