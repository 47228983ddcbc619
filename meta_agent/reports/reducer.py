"""The one reducer: a run's steps and events become a `RunState`, and every view shows that.

Terminal, HTML, `--json` and the queries of the command line read nothing else, so they cannot
disagree. `ledger.kinds` lists the steps.

Events: `plan` {attempts}, `phase` {name, detail, generation?}, `note` {text, level}, `metrics`
{series, step, and numbers}, `replay` {recording, labels: {name: value}, drift: requests that differ
from the recorded ones}, the newest counts; `wait` {text}, which is no progress. `series` names a
curve's owner, an arm and a seed: "g0/c2/s1" or "4f2a-s1-n30".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from meta_agent.core.display import DecisionView
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import WAIT, Event, Ledger, RunRow, Step
from meta_agent.core.ledger.kinds import KINDS
from meta_agent.core.ledger.waiting import Waits
from meta_agent.core.protocols import JSON
from meta_agent.reports._course import course_of
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
    count_of,
)
from meta_agent.reports.state import RunState

STEP_KINDS: Final = tuple(kind for kind, wrote in KINDS.items() if wrote.in_views)


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
    steps = ledger.steps(row.run)
    for step in steps:
        apply_step(state, step)
    state.course = course_of(steps)
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
    state.rollouts += count_of(outcome.get("rollouts"))
    state.train_steps += count_of(outcome.get("train_steps"))
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
        state.planned = count_of(payload.get("attempts"))
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
    "escalation": _added("analyses", AnalysisView),
    "handover": _kept_as("handover"),
    "lead": _fold_lead,
    "skill": _added("skills", SkillView),
    "visible": _kept_as("visible"),
    "results": _kept_as("results"),
}
