"""The documents of `status --json`, `report --json` and `log --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from meta_agent.core.ledger import Event, Step
from meta_agent.core.protocols import JSON
from meta_agent.reports._sentences import progress, sentences
from meta_agent.reports.state import SCHEMA_VERSION, RunState


def status_json(state: RunState) -> dict[str, JSON]:
    """Returns the document of `status --json`: phase, progress, waits, candidates and spend."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": state.run,
        "workspace": state.workspace,
        "live": state.is_at_work,
        "owner": state.owner,
        "exit_reason": state.exit_reason,
        "phase": state.phase,
        "phase_detail": state.phase_detail,
        "progress": progress(state),
        "sentences": _sentences(state),
        "last_at": state.last_at,
        "starts": state.starts,
        "in_flight": [step.key for step in state.open_steps],
        "no_progress": no_progress(state),
        "waits_for": [wait.to_json() for wait in state.waits.waits],
        "waiting": [decision.to_json() for decision in state.waiting],
        "candidates": {candidate.id: candidate.kind for candidate in state.candidates.values()},
        "versions": [version.version for version in state.versions],
        "spend": state.spend_json(),
    }


def report_json(state: RunState) -> dict[str, JSON]:
    """Returns the document of `report --json`: state, settings, sentences on what happened."""
    return {**state.to_json(), "config": dict(state.config), "sentences": _sentences(state)}


def no_progress(state: RunState) -> JSON:
    """Returns since when a running run stands still, and what it waits for; None if it goes on.

    The field `waits_for` is None if the run's process itself is stopped (SIGSTOP).
    """
    if state.frozen_sec:
        return {"since": state.waits.written_at, "waits_for": None}
    stall = state.stall
    return {"since": stall.moved_at, "waits_for": stall.to_json()} if stall else None


def _sentences(state: RunState) -> list[JSON]:
    """Returns the sentences on the run as JSON, each with the command to type next."""
    return [sentence._asdict() for sentence in sentences(state)]


def log_json(run: str, steps: Sequence[Step], events: Sequence[Event]) -> dict[str, JSON]:
    """Returns the document of `log --json`: every step with intent and outcome, every event."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "steps": [{**asdict(step), "done": step.is_done} for step in steps],
        "events": [asdict(event) for event in events],
    }
