"""What passes between the verbs of the loop: the nouns of a run, and the seam to how it searches.

Everything else (sandboxes, commits, measuring, the journal) is the same for every strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final, Literal, NamedTuple, Protocol

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Finding
from meta_agent.core.lab.live import ArmRef, Evaluated, Trained
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Candidate, HarnessTree, Hypothesis, Verdict, VerdictKind

BY_SCORE: Final = "score"
"""The judge of a verdict that rests on a score alone."""

Standing = Literal["proven", "unproven", "start"]


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


class Collected(NamedTuple):
    """A version's policy (training seed 0) and its rollouts on the search split."""

    version: Version
    tree: HarnessTree
    trained: Trained
    evaluated: Evaluated
    untrained: Evaluated | None = None
    """The base policy under this version; None where nothing is trained."""


class Reading(NamedTuple):
    """What the evidence says, and what the validity detectors say of the version itself."""

    evidence: Evidence
    findings: tuple[Finding, ...]
    behind: bool = True
    """Whether a proposer may look behind it, at the attempts and the training."""
    untrained: Evidence | None = None
    """What the base policy does under this harness, before any training."""

    @property
    def invalid(self) -> bool:
        """The version's own score is not what it seems: repair it first."""
        return any(finding.severity == "veto" for finding in self.findings)


class Read(NamedTuple):
    """What a generation started from."""

    collected: Collected
    reading: Reading


class Found(NamedTuple):
    """What a search ended with, measured on the search split and proven nowhere yet."""

    version: Version
    candidates: tuple[Candidate, ...]
    """Those in it, in the order in which they were merged."""
    read: Mapping[int, Read]
    """By generation, what it was written from."""

    @property
    def acting(self) -> bool:
        """Whether anything in it changes what is done: what only watches has its own verdict."""
        return any(one.factor != "diagnostics" for one in self.candidates)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(candidate.id for candidate in self.candidates)

    @property
    def last(self) -> Candidate | None:
        return self.candidates[-1] if self.candidates else None


class HandedOver(NamedTuple):
    """What a run gives to its owner."""

    version: Version
    trained: Trained | None
    """Its weights; None: those of training seed 0."""
    standing: Standing
    words: str = ""
    """In a sentence: what is known of it."""


class Strategy(Protocol):
    """A way to search: from the first version to what is handed over."""

    def carry_out(self, run: Run, first: Version) -> HandedOver: ...


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
