"""Questions to a person: what is asked, what is known, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from meta_agent.core.display import DecisionView
from meta_agent.reports._format import (
    effect_text,
    finding_text,
    live_text,
    prediction_text,
    visible,
)
from meta_agent.reports._parts import CandidateView, parse_effect
from meta_agent.reports.run_sections import spend_line
from meta_agent.reports.sections import Cell, Facts, Section, Words
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal.paint import painted

Rows = Iterator[tuple[str, Cell]]


def waiting(state: RunState) -> RenderableType:
    """Returns every open question of a run, each with the command that answers it."""
    if not state.waiting:
        return Text(visible(f"nothing waits for a person in run {state.run}"))
    return painted([question(state, decision) for decision in state.waiting])


def question(state: RunState, decision: DecisionView) -> Section:
    """Returns the question that waits for a person, with all that is known except the diff."""
    command = Words(answer_command(state, decision))
    return Section([_facts(state, decision), command], decision.asks)


def answer_command(state: RunState, decision: DecisionView) -> str:
    """Returns the command that answers a run's question from another terminal, later."""
    answers = '[--revise "WHAT SHOULD CHANGE" | --abort]'
    return f"meta-agent approve {decision.subject} {answers}{state.workspace_flag}"


def _facts(state: RunState, decision: DecisionView) -> Facts:
    candidate = state.candidates.get(decision.candidate or "")
    rows: list[tuple[str, Cell]] = list(_candidate_rows(candidate)) if candidate else []
    rows += _verdict_rows(decision, candidate) if decision.verdict else ()
    rows += [("failed", line) for line in decision.failed]
    return Facts([*rows, ("spent so far", spend_line(state))], limit=0)


def _candidate_rows(candidate: CandidateView) -> Rows:
    name = f"{candidate.short_id} ({candidate.factor})"
    yield "candidate", f"{name}, commit {candidate.commit[:12]}"
    yield "hypothesis", candidate.statement
    yield "prediction", prediction_text(candidate.hypothesis)
    for title, field in (("may break", "risks"), ("rests on", "evidence")):
        for line in candidate.hypothesis.get(field) or ():
            yield title, str(line)
    for path in candidate.paths:
        yield "changes", path


def _verdict_rows(decision: DecisionView, candidate: CandidateView | None) -> Rows:
    verdict = decision.verdict or {}
    kind = str(verdict.get("kind"))
    yield "verdict", Words(kind, kind=kind)
    for reason in verdict.get("reasons") or ():
        yield "because", str(reason)
    if effect := parse_effect(verdict.get("effect")):
        words = f"{effect_text(effect)} points of clean success, {effect.pairs} pairs"
        yield "effect", words
    for look in candidate.lives if candidate else ():
        yield f"live {look.get('split', '')}", live_text(look)
    evidence = verdict.get("evidence")
    for finding in (evidence.get("findings") or ()) if isinstance(evidence, dict) else ():
        yield str(finding.get("severity", "")), finding_text(finding)
