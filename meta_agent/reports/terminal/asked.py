"""Questions to a person, drawn: what is asked, what is known, what it has cost so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from meta_agent.core.display import DecisionView
from meta_agent.reports._format import (
    effect_text,
    finding_text,
    live_text,
    one_line,
    prediction_text,
    visible,
)
from meta_agent.reports._parts import CandidateView, parse_effect
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal import text
from meta_agent.reports.terminal._style import verdict_style
from meta_agent.reports.terminal._tables import facts_table


class FileChange(NamedTuple):
    """One file of a patch with its added and removed lines."""

    path: str
    added: int
    removed: int


def question(state: RunState, decision: DecisionView) -> RenderableType:
    """All that a person needs for an answer, but the diff."""
    table = facts_table()
    candidate = state.candidates.get(decision.candidate or "")
    if candidate:
        _candidate_rows(table, candidate)
    if decision.verdict:
        _verdict_rows(table, decision, candidate)
    for line in decision.failed:
        table.add_row("failed", Text(one_line(line, 300)))
    table.add_row("spent so far", text.spend_line(state))
    return Group(Rule(Text(visible(decision.asks), style="bold")), table)


def question_diff(state: RunState, decision: DecisionView) -> RenderableType:
    """The change that is asked about."""
    candidate = state.candidates.get(decision.candidate or "")
    return text.diff(candidate.diff) if candidate else Text("no single change is asked about")


def waiting(state: RunState) -> RenderableType:
    """Every open question of a run, each with the command that answers it."""
    if not state.waiting:
        return Text(visible(f"nothing waits for a person in run {state.run}"))
    parts: list[RenderableType] = []
    for decision in state.waiting:
        parts += [question(state, decision), Text(answer_command(state, decision))]
    return Group(*parts)


def answer_command(state: RunState, decision: DecisionView) -> str:
    """What to type where no terminal was attached."""
    where = f" --workspace {state.workspace}" if state.workspace else ""
    subject = visible(decision.subject)
    return f'meta-agent approve {subject} [--revise "WHAT SHOULD CHANGE" | --abort]{visible(where)}'


def changes(patch: str) -> list[FileChange]:
    """Files of a git patch, by its own headers; lines inside a hunk are never read as headers."""
    found: list[FileChange] = []
    in_hunk = False
    for line in patch.splitlines():
        if line.startswith("diff --git "):
            in_hunk = False
            found.append(FileChange(line.rpartition(" b/")[2], 0, 0))
        elif line.startswith("@@"):
            in_hunk = True
        elif in_hunk and found and line[:1] in "+-" and line:
            last = found[-1]
            added, removed = line.startswith("+"), line.startswith("-")
            found[-1] = FileChange(last.path, last.added + added, last.removed + removed)
    return found


def _candidate_rows(table: Table, one: CandidateView) -> None:
    table.add_row(
        "candidate", Text(visible(f"{one.short_id} ({one.factor}), commit {one.commit[:12]}"))
    )
    table.add_row("hypothesis", Text(visible(one.statement)))
    table.add_row("prediction", Text(prediction_text(one.hypothesis)))
    for name, lines in (("may break", "risks"), ("rests on", "evidence")):
        for line in one.hypothesis.get(lines) or ():
            table.add_row(name, Text(one_line(line, 300)))
    for line in _stat_lines(changes(one.diff)):
        table.add_row("changes", Text(line))


def _stat_lines(files: Iterable[FileChange]) -> Iterator[str]:
    for one in files:
        yield visible(f"{one.path}  +{one.added} -{one.removed}")


def _verdict_rows(table: Table, decision: DecisionView, one: CandidateView | None) -> None:
    verdict = decision.verdict or {}
    kind = str(verdict.get("kind"))
    table.add_row("verdict", Text(visible(kind), style=verdict_style(kind)))
    for reason in verdict.get("reasons") or ():
        table.add_row("because", Text(visible(reason)))
    if effect := parse_effect(verdict.get("effect")):
        told = f"{effect_text(effect)} points of clean success, {effect.pairs} pairs"
        table.add_row("effect", Text(told))
    for live in one.lives if one else ():
        table.add_row(f"live {visible(live.get('split', ''))}", Text(live_text(live)))
    evidence = verdict.get("evidence")
    for found in (evidence.get("findings") or ()) if isinstance(evidence, dict) else ():
        table.add_row(visible(found.get("severity", "")), Text(finding_text(found)))
