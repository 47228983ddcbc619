"""The one reducer: a run's steps and events become a `RunState`, and every view shows that.

Terminal, HTML, `--json` and the queries of the command line read nothing else, so they cannot
disagree. Reading is tolerant: what an older run did not record is None.

What steps there are stands in `ledger.kinds`.

Events: `plan` {attempts}, `phase` {name, detail, generation?}, `note` {text, level}, `metrics`
{series, step, and numbers}, `replay` {recording, labels: {name: value}, drift: requests that differ
from the recorded ones}, the newest counts; `wait` {text}, which is no progress. `series` names a
curve's owner, an arm and a seed: "g0/c2/s1" or "4f2a-s1-n30".
"""

from __future__ import annotations

import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from meta_agent.core.display import DecisionView
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import WAIT, Event, Ledger, RunRow, Spend, Step
from meta_agent.core.ledger.kinds import KINDS
from meta_agent.core.ledger.waiting import FROZEN_SEC, Wait, Waits, stalled
from meta_agent.core.protocols import JSON
from meta_agent.reports._money import by_role_json, total_usd, usd_of
from meta_agent.reports._parts import (
    AnalysisView,
    CandidateView,
    CellView,
    EvidenceView,
    Measured,
    MetricPoint,
    Recorded,
    RefusedView,
    SkillView,
    VersionView,
)

STEP_KINDS: Final = tuple(kind for kind, wrote in KINDS.items() if wrote.in_views)
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
            "weights": self._here(handed.get("checkpoint")) if self._trains else None,
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
    def _trains(self) -> bool:
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
        problem = "names more than one candidate" if matches else "is no candidate"
        raise ConfigError(
            f"{name!r} {problem} of run {self.run}", hint=f"candidates of this run: {names}"
        )


def reduce(ledger: Ledger, run: str | None = None) -> RunState:
    """Reads a run from the ledger and returns its state; without a name, the newest run.

    Raises ConfigError if there is no such run.
    """
    row = _run_row(ledger, run)
    state = RunState(
        run=row.run,
        config=row.config or {},
        workspace=_place(row.config or {}, ledger.folder),
        exit_reason=row.exit_reason,
        owner=ledger.owner,
        started_at=row.started_at,
        last_at=row.started_at,
        finished_at=row.finished_at,
        starts=row.starts,
        spend=ledger.spend(row.run),
    )
    if row.exit_reason is None:
        state.waits = Waits.read(ledger.folder, row.run, state.owner)
    for step in ledger.steps(row.run):
        apply_step(state, step)
    for step in ledger.steps(kind="revert"):  # by a person, after any run
        apply_step(state, step)
    for event in ledger.events(row.run):
        apply_event(state, event)
    return state


def _place(config: Mapping[str, JSON], folder: Path) -> str:
    """Returns the workspace as the settings name it, or where it lies now if it was moved."""
    workspace = str(config.get("workspace", ""))
    return workspace if not workspace or Path(workspace).resolve() == folder else str(folder)


def every_candidate(ledger: Ledger) -> dict[str, CandidateView]:
    """Returns the candidates of all runs by id, with their verdicts and merges."""
    every = RunState("")
    for step in ledger.steps():
        if step.kind in ("candidate", "verdict", "merge", "revert"):
            apply_step(every, step)
    return every.candidates


def decisions_on_commit(ledger: Ledger, commit: str) -> list[DecisionView]:
    """Returns people's decisions on candidates whose own or merge commit begins with `commit`."""
    meant = {
        step.fields.get("candidate") or step.fields.get("id")
        for kind in ("candidate", "merge")
        for step in ledger.steps(kind=kind)
        if step.is_done and str(step.fields.get("commit") or "").startswith(commit)
    }
    decisions = map(DecisionView.parse, ledger.steps(kind="decision"))
    return [decision for decision in decisions if decision.candidate in meant]


def apply_step(state: RunState, step: Step) -> None:
    """Adds a ledger step to the state. A step of unknown kind adds only its time and usage."""
    state.last_at = max(state.last_at, step.finished_at or step.started_at)
    if step.kind == "decision":
        _fold_decision(state, step)
        return
    if not step.is_done:
        state.open_steps.append(step)
        return
    outcome: Mapping[str, Any] = step.fields
    state.rollouts += int(outcome.get("rollouts") or 0)
    state.train_steps += int(outcome.get("train_steps") or 0)
    if fold := _FOLDS.get(step.kind):
        fold(state, outcome)


def apply_event(state: RunState, event: Event) -> None:
    """Adds a ledger event, such as a phase or a training step's metrics, to the state."""
    if event.kind == WAIT:
        return
    state.last_at = max(state.last_at, event.at)
    payload: Mapping[str, Any] = event.fields
    if event.kind == "phase":
        state.phase = str(payload.get("name", ""))
        state.phase_detail = str(payload.get("detail", ""))
    elif event.kind == "plan":
        state.planned = int(payload.get("attempts") or 0)
    elif event.kind == "replay":
        state.replay = payload
    elif event.kind == "metrics":
        point = MetricPoint.parse(payload)
        _replace_rerun(state.metrics[point.series], point)


def _replace_rerun(points: list[MetricPoint], point: MetricPoint) -> None:
    """Appends a point. A killed training starts over, so the points it repeats are dropped."""
    while points and points[-1].step >= point.step:
        points.pop()
    points.append(point)


def _run_row(ledger: Ledger, run: str | None) -> RunRow:
    runs = ledger.runs()
    newest = next((row for row in reversed(runs) if run in (None, row.run)), None)
    if newest is not None:
        return newest
    if run is None:
        raise ConfigError("nothing has run in this workspace yet", hint="start: meta-agent evolve")
    names = ", ".join(row.run for row in runs[-5:]) or "none"
    raise ConfigError(f"there is no run {run!r} in this workspace", hint=f"name one of: {names}")


def _version(outcome: Mapping[str, Any], measured: Measured | None) -> VersionView:
    commit = outcome.get("commit") or outcome.get("harness_commit")
    return VersionView.parse({**outcome, "commit": commit, "measured": measured})


def _fold_baseline(state: RunState, outcome: Mapping[str, Any]) -> None:
    state.first = Measured.parse(outcome)
    state.versions.append(_version(outcome, state.first))


def _fold_vault(state: RunState, outcome: Mapping[str, Any]) -> None:
    measured = Measured.parse(outcome)
    if outcome.get("which") == "baseline":
        state.baseline = measured
    else:
        state.final = measured


def _fold_proposal(state: RunState, outcome: Mapping[str, Any]) -> None:
    state.refused += RefusedView.parse_all(outcome)
    analysis = AnalysisView.parse(outcome)
    if analysis.nothing or analysis.noted:
        state.analyses.append(analysis)


def _fold_revision(state: RunState, outcome: Mapping[str, Any]) -> None:
    state.refused += RefusedView.parse_all({**outcome, "refused": [outcome.get("refused")]})


def _fold_decision(state: RunState, step: Step) -> None:
    decision = DecisionView.parse(step)
    state.decisions.append(decision)
    candidate = state.candidates.get(str(decision.candidate))
    if candidate and decision.gate == "merge" and decision.answer == "REVISE":
        candidate.declined = decision.feedback


def _fold_candidate(state: RunState, outcome: Mapping[str, Any]) -> None:
    candidate = CandidateView.parse(outcome)
    state.candidates[candidate.id] = candidate


def _fold_live(state: RunState, outcome: Mapping[str, Any]) -> None:
    state.confirm_queries += outcome.get("split") == "confirm"
    if kind := outcome.get("claim"):
        state.claims[str(kind)] = outcome.get("verdict") or {}
    if candidate := state.candidates.get(str(outcome.get("candidate"))):
        candidate.lives.append(dict(outcome))


def _fold_merge(state: RunState, outcome: Mapping[str, Any]) -> None:
    for name in outcome.get("members") or [outcome.get("candidate")]:
        if candidate := state.candidates.get(str(name)):
            candidate.merge = dict(outcome)
    if not outcome.get("undone"):
        state.lead = None
    measured = Measured.parse(outcome) if outcome.get("clean_success") is not None else None
    state.versions.append(_version(outcome, measured))


def _fold_cell(state: RunState, outcome: Mapping[str, Any]) -> None:
    vetoes = (f"{veto.get('code')}: {veto.get('message')}" for veto in outcome.get("vetoes") or ())
    state.cells.append(CellView.parse({**outcome, "why": "; ".join(vetoes)}))


def _fold_bundle(state: RunState, outcome: Mapping[str, Any]) -> None:
    """Marks the cell that the search continued from."""
    chosen = (outcome.get("generation"), outcome.get("chosen"))
    state.cells = [
        replace(cell, chosen=True) if (cell.generation, cell.name) == chosen else cell
        for cell in state.cells
    ]


def _fold_lead(state: RunState, outcome: Mapping[str, Any]) -> None:
    state.lead = outcome if outcome.get("members") else None


def _on_candidate(
    change: Callable[[CandidateView, Mapping[str, Any]], object],
) -> Callable[[RunState, Mapping[str, Any]], None]:
    """Returns a function that changes the candidate that a step's outcome names."""

    def fold(state: RunState, outcome: Mapping[str, Any]) -> None:
        if candidate := state.candidates.get(str(outcome.get("candidate"))):
            change(candidate, outcome)

    return fold


def _kept_as(name: str) -> Callable[[RunState, Mapping[str, Any]], None]:
    """Returns a function that stores a step's outcome in the state's field `name`."""
    return lambda state, outcome: setattr(state, name, outcome)


def _added(name: str, kind: type[Recorded]) -> Callable[[RunState, Mapping[str, Any]], None]:
    """Returns a function that appends a step's outcome to the state's list `name`."""
    return lambda state, outcome: getattr(state, name).append(kind.parse(outcome))


_FOLDS: Final[Mapping[str, Callable[[RunState, Mapping[str, Any]], None]]] = {
    "baseline": _fold_baseline,
    "vault": _fold_vault,
    "evidence": _added("evidence", EvidenceView),
    "proposal": _fold_proposal,
    "revision": _fold_revision,
    "candidate": _fold_candidate,
    "screen": _on_candidate(lambda candidate, step: candidate.screens.append(dict(step))),
    "live": _fold_live,
    "verdict": _on_candidate(lambda candidate, step: setattr(candidate, "verdict", dict(step))),
    "merge": _fold_merge,
    "revert": _on_candidate(
        lambda candidate, step: setattr(candidate, "reverted", str(step.get("commit")))
    ),
    "cell": _fold_cell,
    "bundle": _fold_bundle,
    "handover": _kept_as("handover"),
    "lead": _fold_lead,
    "skill": _added("skills", SkillView),
    "visible": _kept_as("visible"),
    "results": _kept_as("results"),
}
