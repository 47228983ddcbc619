"""The records that the steps of the loop pass to each other, and the `Strategy` protocol.

Everything else (sandboxes, commits, measuring, the journal) is the same for every strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final, NamedTuple, Protocol

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Finding
from meta_agent.core.lab.live import ArmRef, Evaluated, Trained
from meta_agent.core.ledger.kinds import Standing
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Candidate, HarnessTree, Hypothesis, Verdict, VerdictKind

BY_SCORE: Final = "score"
"""Value of `judge` in a verdict that rests on a raw score."""


class Version(NamedTuple):
    """A measured harness: its name, such as `v1`, and its commit."""

    id: str
    commit: str


class Tested(NamedTuple):
    """A candidate, and the findings (faults) of all checks before it is trained or evaluated."""

    candidate: Candidate
    findings: tuple[Finding, ...]

    @property
    def vetoed(self) -> bool:
        """Returns True if a check stopped the candidate; then no attempts are spent on it."""
        return any(finding.severity == "veto" for finding in self.findings)

    @property
    def watches(self) -> bool:
        """Returns True if the candidate edits diagnostics only, which no score can judge."""
        return self.candidate.factor == "diagnostics"


class Judged(NamedTuple):
    """A verdict, and references to the stored rollouts of both sides, to compute it again."""

    verdict: Verdict
    arms: tuple[ArmRef, ArmRef] | None = None  # baseline, candidate


class Collected(NamedTuple):
    """A harness version with its policy (training seed 0) and its rollouts on the search split."""

    version: Version
    tree: HarnessTree
    trained: Trained
    evaluated: Evaluated
    untrained: Evaluated | None = None
    """The base policy under this version. None if nothing is trained."""


class Reading(NamedTuple):
    """The evidence about a harness version, and findings against the validity of its own score."""

    evidence: Evidence
    findings: tuple[Finding, ...]
    behind: bool = True
    """Whether a proposer may also see the attempts and the training behind the evidence."""
    untrained: Evidence | None = None
    """Evidence about the base policy under this harness, before any training."""

    @property
    def invalid(self) -> bool:
        """Returns True if the version's own score is not valid, so that a repair comes first."""
        return any(finding.severity == "veto" for finding in self.findings)


class Read(NamedTuple):
    """The version that a generation started from, and the evidence (metrics, alerts) about it."""

    collected: Collected
    reading: Reading


class SearchResult(NamedTuple):
    """The result of a search, not yet proven: a version, and the candidates merged into it."""

    version: Version
    candidates: tuple[Candidate, ...]
    """The candidates merged into the version, in the order of their merges."""
    read: Mapping[int, Read]
    """Maps a generation to the version and evidence that its candidates were written from."""

    @property
    def acting(self) -> bool:
        """Returns True if any merged candidate changes more than diagnostics (metrics)."""
        return any(candidate.factor != "diagnostics" for candidate in self.candidates)

    @property
    def members(self) -> tuple[str, ...]:
        """Returns the ids of the merged candidates."""
        return tuple(candidate.id for candidate in self.candidates)

    @property
    def last(self) -> Candidate | None:
        return self.candidates[-1] if self.candidates else None


class HandedOver(NamedTuple):
    """The harness and the weights that a run ends with, and how well they are proven."""

    version: Version
    trained: Trained | None
    """Its weights. None stands for those of training seed 0."""
    standing: Standing
    words: str = ""
    """One sentence about how well it is proven."""


class Strategy(Protocol):
    """A way to search: takes a run from its first version to what the run ends with."""

    def carry_out(self, run: Run, first: Version) -> HandedOver: ...


def stopped(findings: tuple[Finding, ...]) -> Judged:
    """Returns the verdict INVALID on a candidate, with the vetoes among `findings` as reasons."""
    reasons = tuple(f"{f.code}: {f.message}" for f in findings if f.severity == "veto")
    evidence = {"judge": "checks", "findings": [finding.to_json() for finding in findings]}
    return Judged(Verdict(VerdictKind.INVALID, reasons, evidence=evidence))


def undecided(reason: str, cells: Sequence[str] | None = None) -> Judged:
    """Returns the verdict INCONCLUSIVE on a candidate that no final test was about.

    `cells` names the measured sets of candidates that the `reason` rests on. None means none.
    """
    evidence: JSON = {"judge": "checks", "findings": []}
    if cells is not None:
        evidence = {"judge": "bundle", "inputs": {"cells": list(cells)}}
    kind = VerdictKind.INCONCLUSIVE
    return Judged(Verdict(kind, (reason,), screened_out=True, evidence=evidence))


def failure(error: CandidateError, stage: str = "failed") -> Finding:
    """Returns a veto on a candidate that raised `error`; the veto's code begins with `stage`."""
    return Finding(f"{stage}.{error.reason}", "veto", str(error)[:1000])


def machines_failed(evidence: Mapping[str, JSON]) -> bool:
    """Returns True if a verdict's `evidence` holds a veto because machines lost rollouts."""
    findings = evidence.get("findings", ())
    vetoes = [f["code"] for f in findings if f["severity"] == "veto" and f["side"] != "baseline"]
    return any(code.startswith("infra.") for code in vetoes)


def proven(verdict: Verdict) -> bool:
    """Returns True if a verdict rests on a test with a known error rate, not on a raw score."""
    return verdict.evidence.get("judge") != BY_SCORE


@contextmanager
def must_work(version: Version) -> Iterator[None]:
    """Returns a context that turns a CandidateError into a ConfigError, which names `version`."""
    try:
        yield
    except CandidateError as error:
        raise ConfigError(
            f"the harness {version.id} ({version.commit[:12]}) cannot be measured: {error}",
            hint=error.hint
            or "repair it in harness_repo/, commit, and start a new run with another --seed",
        ) from error


def candidate_to_json(candidate: Candidate) -> dict[str, JSON]:
    """Returns a candidate as the ledger stores it."""
    return asdict(candidate)


def candidate_from_json(data: dict[str, Any]) -> Candidate:
    """Returns the candidate that a ledger record holds. Keys that later steps added are ignored."""
    hypothesis = dict(data["hypothesis"])
    for name in ("risks", "evidence", "skills", "factors"):
        hypothesis[name] = tuple(hypothesis.get(name, ()))
    fields = {name: data[name] for name in Candidate.__dataclass_fields__}
    fields |= {"paths": tuple(data["paths"]), "hypothesis": Hypothesis(**hypothesis)}
    return Candidate(**fields)
