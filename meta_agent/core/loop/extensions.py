"""Protocols of what a run takes from extensions, which the composition root looks up.

A module, a class or a test's own object can satisfy each Protocol. The core calls nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from meta_agent.core.evidence import Evidence
from meta_agent.core.harness import Teaches
from meta_agent.core.proposals import EvidenceSource, Proposer
from meta_agent.core.protocols import JSON, Candidate, Rollout, Task, Verdict


class Record(Protocol):
    """A value that can be stored in the ledger as JSON."""

    def to_json(self) -> dict[str, JSON]: ...


class EvidenceReader(Protocol):
    """Turns rollouts into evidence: metrics and alerts about a harness version."""

    def build_evidence(
        self,
        rollouts: Iterable[Rollout],
        *,
        train_metrics: Sequence[Mapping[str, JSON]] | None = None,
        measured: Mapping[str, Mapping[str, float]] | None = None,
        baseline: Evidence | None = None,
        probed: Mapping[str, float] | None = None,
        tasks: Mapping[str, Mapping[str, JSON]] | None = None,
    ) -> Evidence:
        """Returns the evidence from rollouts, training metrics and the harness's diagnostics.

        `measured` is what each diagnostic measured; it is untrusted. `baseline` is the version to
        report changes against. `probed` holds statistics of the harness's reward, filter and
        curriculum. `tasks` maps a task's key to what an agent is given.
        """
        ...

    def exemplars(
        self, rollouts: Iterable[Rollout], *, per_mode: int
    ) -> Mapping[str, Sequence[Record]]:
        """Returns up to `per_mode` complete attempts for each failure mode."""
        ...

    def gap(self, evidence: Evidence, baseline: Evidence | None) -> Record | None:
        """Returns how clean success changed since `baseline`, and which metrics changed with it.

        Returns None without a comparable baseline, or if the change is within noise.
        """
        ...

    def probe(
        self, session: Teaches, rollouts: Sequence[Rollout], tasks: Sequence[Task]
    ) -> Mapping[str, float]:
        """Returns statistics of how a harness's reward, filter and curriculum treat rollouts."""
        ...

    def render_text(self, evidence: Evidence, *, moved: bool = False) -> str:
        """Returns the evidence as text; with `moved`, only the metrics that changed."""
        ...


class EvidenceFiles(Protocol):
    """Shows attempts to the authors of edits, as files and texts."""

    def evidence_files(self, source: EvidenceSource) -> Mapping[str, bytes]:
        """Returns the metrics and attempts of a generation as files to read, by path."""
        ...

    def story(self, rollout: Rollout) -> str:
        """Returns a summary of one attempt at a task in one line."""
        ...

    def transcript(self, rollout: Rollout) -> str:
        """Returns the full text of one attempt."""
        ...


class NoteWriter(Protocol):
    """Writes the texts of git notes on the commits of candidates and merges."""

    def verdict_note(self, candidate: Candidate, verdict: Verdict) -> str:
        """Returns the git note on a candidate's commit that tells its verdict."""
        ...

    def claim_note(self, commit: str, members: Sequence[str], verdict: Verdict) -> str:
        """Returns the git note on `commit`: the final test's verdict on the candidates in it."""
        ...

    def attribution_note(self, candidate: str, attribution: Mapping[str, Any]) -> str:
        """Returns a text on how much of a gain is the harness's, and how much the policy's."""
        ...

    def handover_note(self, run: str, handover: JSON, vault: Mapping[str, JSON]) -> str:
        """Returns the git note on what a run ends with, and on how it did on the vault split."""
        ...


@dataclass(slots=True)
class Extensions:
    """The extensions of a run: who proposes edits, reads and shows attempts, and writes notes."""

    proposer: Proposer
    evidence: EvidenceReader
    files: EvidenceFiles
    notes: NoteWriter
