"""The state of a run: what its ledger records, as terminal, page and `--json` show it.

`reducer.reduce` makes it. What an older run did not record is None.
"""

from __future__ import annotations

import shlex
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from meta_agent.core.config import slug_of
from meta_agent.core.display import DecisionView
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Spend, Step
from meta_agent.core.ledger.waiting import FROZEN_SEC, Wait, Waits, stalled
from meta_agent.core.protocols import JSON
from meta_agent.reports._course import Course
from meta_agent.reports._money import by_role_json, total_usd, usd_of
from meta_agent.reports._parts import (
    AnalysisView,
    CandidateView,
    CellView,
    EvidenceView,
    Measured,
    MetricPoint,
    RefusedView,
    SkillView,
    VersionView,
)

SCHEMA_VERSION: Final = 1


@dataclass(slots=True)
class RunState:
    """Everything that the ledger records about one run, as every report shows it."""

    run: str
    config: Mapping[str, JSON] = field(default_factory=dict)
    workspace: str = ""  # where it is now; the settings say where it was
    exit_reason: str | None = None  # None: running, or killed
    owner: str | None = None  # the process that works in this workspace now
    started_at: float = 0.0
    last_at: float = 0.0
    finished_at: float | None = None
    starts: int = 1
    first: Measured | None = None  # the baseline on the split the search reads
    baseline: Measured | None = None  # on the vault
    final: Measured | None = None  # on the vault
    visible: Mapping[str, Any] | None = None  # the smallest gain that this run can see
    results: Mapping[str, Any] | None = None  # on the vault, over training runs
    versions: list[VersionView] = field(default_factory=list)
    lead: Mapping[str, Any] | None = None  # the ideas that joined it since main advanced
    cells: list[CellView] = field(default_factory=list)
    claims: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # last verdict, by kind
    handover: Mapping[str, Any] | None = None
    candidates: dict[str, CandidateView] = field(default_factory=dict)
    refused: list[RefusedView] = field(default_factory=list)
    analyses: list[AnalysisView] = field(default_factory=list)  # those with words for people
    decisions: list[DecisionView] = field(default_factory=list)
    evidence: list[EvidenceView] = field(default_factory=list)
    skills: list[SkillView] = field(default_factory=list)
    course: Course = field(default_factory=Course)
    metrics: dict[str, list[MetricPoint]] = field(default_factory=lambda: defaultdict(list))
    spend: dict[str, Spend] = field(default_factory=dict)
    rollouts: int = 0
    train_steps: int = 0
    planned: int = 0
    """Attempts that the run may make, without those at vault tasks; 0 if it is not recorded."""
    confirm_queries: int = 0  # looks at the confirm split; each one may mislead by luck
    phase: str = ""
    phase_detail: str = ""
    replay: Mapping[str, Any] | None = None  # the recording that the replies came from
    open_steps: list[Step] = field(default_factory=list)
    waits: Waits = field(default_factory=Waits)  # what its process last wrote that it waits for

    @property
    def domain(self) -> str:
        return str(self.config.get("domain", ""))

    @property
    def is_at_work(self) -> bool:
        """Returns True if the run has not ended and a process works in its workspace."""
        return self.exit_reason is None and self.owner is not None

    @property
    def workspace_flag(self) -> str:
        """Returns ` --workspace PATH` for suggested commands; empty if no workspace is known."""
        return f" --workspace {shlex.quote(str(self.workspace))}" if self.workspace else ""

    @property
    def wall_sec(self) -> float:
        """Returns the seconds from the first start to the last record, pauses included."""
        return max(0.0, (self.finished_at or self.last_at) - self.started_at)

    @property
    def share(self) -> float | None:
        """Returns the share of the planned attempts that are done; None if no plan is recorded."""
        return min(1.0, self.rollouts / self.planned) if self.planned else None

    @property
    def left_sec(self) -> float | None:
        """Returns the estimated seconds to the end; None for a run not at work or below 10 %."""
        share = self.share or 0.0
        return self.wall_sec * (1 - share) / share if self.is_at_work and share >= 0.1 else None

    @property
    def usd(self) -> float | None:
        """Returns the US$ spent and held for unanswered calls; None if a price is unknown."""
        return total_usd(map(usd_of, self.spend.values()))

    @property
    def tokens(self) -> int:
        return sum(part.tokens + part.open_tokens for part in self.spend.values())

    @property
    def product(self) -> dict[str, JSON]:
        """Returns harness repository, commit, policy and weights; an unknown one is None."""
        last = self.versions[-1] if self.versions else None
        handed = self.handover or {}
        workspace = self.workspace
        return {
            "harness": f"{workspace}/harness_repo" if workspace else None,
            "harness_commit": handed.get("commit") or (last.commit if last else None),
            "policy": handed.get("policy") or (last.policy if last else None),
            "weights": self._here(handed.get("checkpoint")) if self.trains else None,
        }

    def _here(self, path: JSON) -> str | None:
        """Returns a recorded path inside the workspace, wherever the workspace lies now."""
        if not path:
            return None
        with suppress(ValueError):
            inside = Path(str(path)).relative_to(str(self.config.get("workspace")))
            return str(Path(self.workspace) / inside)
        return str(path)

    @property
    def trains(self) -> bool:
        """Returns True if the run trains its policy's weights."""
        policy = str(self.config.get("policy", ""))
        return policy == "nano" or policy.startswith("hf:")

    @property
    def diff(self) -> str:
        """Returns the patch from the first harness to the one handed over; "" if they are equal.

        A run of an older version did not record it. Then the diffs of its merged ideas are joined.
        """
        recorded = (self.handover or {}).get("diff")
        if recorded is not None:
            return str(recorded)
        return "".join(candidate.diff for candidate in self.carriers)

    @property
    def carriers(self) -> list[CandidateView]:
        """Returns the candidates that were merged into `main` and are still there."""
        return [
            candidate
            for candidate in self.candidates.values()
            if candidate.merge and not candidate.merge.get("undone") and not candidate.reverted
        ]

    @property
    def taken_back(self) -> str:
        """Returns the names of merged candidates that a person reverted since; "" without any."""
        merged = (candidate for candidate in self.candidates.values() if candidate.merge)
        return ", ".join(candidate.short_id for candidate in merged if candidate.reverted)

    @property
    def nothing_tried(self) -> str:
        """Returns why an ended run that asked for ideas has no candidate; "" if it has one."""
        if self.exit_reason != "done" or self.candidates:
            return ""
        if self.refused:
            why = self.refused[-1].reason
            return f"{len(self.refused)} refused, the last because {why}"
        return next((view.nothing for view in reversed(self.analyses) if view.nothing), "")

    @property
    def command(self) -> str:
        """Returns the command that made the run, and that resumes it: `evolve` or `train`."""
        return "train" if self.run.startswith(f"{slug_of(self.domain)}-train-") else "evolve"

    @property
    def vault_gain(self) -> float | None:
        """Returns clean success on the vault after the run less that before; None without both."""
        before, after = (
            side.clean_success if side else None for side in (self.baseline, self.final)
        )
        return None if before is None or after is None else after - before

    @property
    def waiting(self) -> list[DecisionView]:
        """Returns the decisions that wait for a person's answer."""
        return [decision for decision in self.decisions if decision.waits]

    @property
    def alive_at(self) -> float:
        """Returns the Unix time of the run's last record, or of later progress where it waits."""
        return max(self.last_at, *(wait.moved_at for wait in self.waits.waits), 0.0)

    @property
    def stall(self) -> Wait | None:
        """Returns what holds a running run up (a model, a training ...); None if nothing does."""
        return stalled(self.waits.waits, self.last_at, time.time()) if self.is_at_work else None

    @property
    def frozen_sec(self) -> float:
        """Returns how many seconds the run's process has been stopped; 0 if it runs or ended."""
        written_at = self.waits.written_at
        if not self.is_at_work or written_at is None:
            return 0.0
        silent_sec = time.time() - written_at
        return silent_sec if silent_sec > FROZEN_SEC else 0.0

    def decisions_on(self, candidate: str) -> list[DecisionView]:
        """Returns what people decided about one candidate, from their recorded answers."""
        return [decision for decision in self.decisions if decision.candidate == candidate]

    def cell_of(self, candidate: CandidateView) -> CellView | None:
        """Returns the first invalid cell that held the candidate, else its first cell, or None."""
        cells = [cell for cell in self.cells if candidate.id in cell.members]
        return max(cells, key=lambda cell: not cell.valid, default=None)

    def spend_json(self) -> dict[str, JSON]:
        """Returns the run's use of money, tokens, rollouts and time as a JSON object."""
        return {
            "usd": self.usd,
            "tokens": self.tokens,
            "rollouts": self.rollouts,
            "train_steps": self.train_steps,
            "confirm_queries": self.confirm_queries,
            "wall_sec": round(self.wall_sec, 3),
            "by_role": by_role_json(self.spend),
        }

    def to_json(self) -> dict[str, JSON]:
        """Returns the state as `evolve --json` prints it; `report --json` adds sentences."""
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.run,
            "domain": self.domain,
            "workspace": self.workspace,
            "exit_reason": self.exit_reason,
            "baseline": self.baseline.to_json() if self.baseline else None,
            "final": self.final.to_json() if self.final else None,
            "product": self.product,
            "visible": dict(self.visible) if self.visible else None,
            "results": dict(self.results) if self.results else None,
            "versions": [version.to_json() for version in self.versions],
            "lead": dict(self.lead) if self.lead else None,
            "cells": [cell.to_json() for cell in self.cells],
            "claims": {kind: dict(verdict) for kind, verdict in self.claims.items()},
            "handed_over": dict(self.handover) if self.handover else None,
            "candidates": [candidate.to_json() for candidate in self.candidates.values()],
            "refused": [view.to_json() for view in self.refused],
            "analyses": [view.to_json() for view in self.analyses],
            "decisions": [view.to_json() for view in self.decisions],
            "skills": [skill.to_json() for skill in self.skills],
            "replay": dict(self.replay) if self.replay else None,
            "spend": self.spend_json(),
        }

    def candidates_of(self, name: str) -> list[CandidateView]:
        """Returns the candidates that a version (`v1`) or commit of `main` merged; [] for others.

        Raises ConfigError for the version that the run starts from.
        """
        for number, version in enumerate(self.versions):
            if name == version.version or (len(name) > 5 and version.commit.startswith(name)):
                if number == 0:
                    raise ConfigError(
                        f"{name} is the version that run {self.run} starts from: nothing led to it",
                        hint="meta-agent report",
                    )
                merges = ((each, each.merge or {}) for each in self.candidates.values())
                return [each for each, merge in merges if merge.get("commit") == version.commit]
        return []

    def candidate(self, name: str) -> CandidateView:
        """Returns a candidate by its id, the end of its id (`g1/c2`), or the start of its commit.

        Raises ConfigError if the name fits none, or more than one.
        """
        matches = [
            candidate for candidate in self.candidates.values() if candidate.answers_to(name)
        ]
        if len(matches) == 1:
            return matches[0]
        names = (
            ", ".join(candidate.short_id for candidate in self.candidates.values()) or "none yet"
        )
        problem = "more than one candidate" if matches else "no candidate"
        raise ConfigError(
            f"run {self.run} has {problem} {name!r}", hint=f"candidates of this run: {names}"
        )
