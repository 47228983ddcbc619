"""A harness's history on paper: who brought which line, what happened when, what was taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from meta_agent.core.ledger import Step
from meta_agent.core.protocols import JSON
from meta_agent.reports._format import effect_text, one_line, percent, visible
from meta_agent.reports._parts import BlamedLine, Measured, parse_effect
from meta_agent.reports.sections import Cell, Table, Words
from meta_agent.reports.terminal.paint import painted, verdict_style

Outcome = Mapping[str, Any]


class Moment(NamedTuple):
    """Something that changed what is in one's hands, or what is known of it."""

    at: float
    run: str
    kind: str
    commit: str
    words: str


def moments(steps: Sequence[Step]) -> list[Moment]:
    """Returns what a reader wants of all that was recorded, oldest first."""
    chosen = []
    for step in steps:
        describe = _DESCRIBE.get(step.kind)
        if step.is_done and describe and (words := describe(step.fields)):
            commit = str(step.fields.get("commit") or step.fields.get("harness_commit") or "")
            at = step.finished_at or step.started_at
            chosen.append(Moment(at, step.key.partition("/")[0], step.kind, commit, words))
    return chosen


def timeline(every: Sequence[Moment]) -> RenderableType:
    """A line each; the run's name only if there are several."""
    several = len({moment.run for moment in every if moment.kind != "revert"}) > 1
    rows: list[tuple[Cell, ...]] = []
    for moment in every:
        stamp = time.strftime("%Y-%m-%d %H:%M", time.localtime(moment.at))
        run = [moment.run] if several else []
        commit = Words(moment.commit[:8], "warn")
        rows.append((Words(stamp, "dim"), *run, commit, moment.words))
    headings = ("when", *(["run"] if several else []), "commit", "what happened")
    table = Table(headings, rows, whole=range(len(headings) - 1), limit=0)
    return painted([table]) if rows else Text("nothing has changed the harness yet")


def timeline_json(every: Sequence[Moment]) -> dict[str, JSON]:
    """The same as a document."""
    return {"schema_version": 1, "moments": [_moment_json(moment) for moment in every]}


def _moment_json(moment: Moment) -> dict[str, JSON]:
    at, run, kind, commit, words = moment
    return {"at": at, "run": run, "kind": kind, "commit": commit, "told": words}


def blame(lines: Sequence[BlamedLine]) -> RenderableType:
    """As git does, with the candidate and its verdict in place of author and date."""
    text = Text(no_wrap=True, overflow="ignore")
    for line in lines:
        source = line.candidate
        name = f"{source.short_id} {source.kind}" if source else one_line(line.subject, 24)
        effect = effect_text(source.effect or source.share) if source else ""
        style = verdict_style(source.kind) if source else "dim"
        text.append(f"{line.commit[:8]} ", style="yellow")
        text.append(f"{visible(name):<24} ", style=style)
        text.append(f"{effect:>21} {line.number:>4}) {visible(line.text)}\n")
    return text


def blame_json(file: str, commit: str, lines: Sequence[BlamedLine]) -> dict[str, JSON]:
    """The same as a document."""
    rows = [
        {**line._asdict(), "candidate": line.candidate.to_json() if line.candidate else None}
        for line in lines
    ]
    return {"schema_version": 1, "file": file, "commit": commit, "lines": rows}


def reverted(reverts: Sequence[Mapping[str, JSON]], workspace: str) -> RenderableType:
    """What was taken back, and how what is left is judged."""
    lines = [
        f"{revert['candidate']} is taken back by {str(revert['commit'])[:12]}" for revert in reverts
    ]
    next_run = f"meta-agent evolve --seed 1 --workspace {workspace}"
    lines.append(f"what is left was not judged yet; a run with another seed does: {next_run}")
    return Group(*(Text(visible(line)) for line in lines))


def _names(outcome: Outcome) -> str:
    members = outcome.get("members") or [outcome.get("candidate")]
    return ", ".join(str(name).partition("/")[2] or str(name) for name in members)


def _baseline(outcome: Outcome) -> str:
    clean = percent(outcome.get("clean_success"))
    return f"{outcome.get('version')} is where it starts: {clean} clean on {outcome.get('split')}"


def _bundle(outcome: Outcome) -> str:
    if not outcome.get("chosen"):
        return ""
    return f"generation {outcome.get('generation')} goes on from the cell {outcome['chosen']}"


def _claim(outcome: Outcome) -> str:
    verdict = outcome.get("verdict")
    if not outcome.get("claim") or not isinstance(verdict, dict):
        return ""
    effect = effect_text(parse_effect(verdict.get("effect")))
    return f"claim about this {outcome['claim']}: {verdict.get('kind')} {effect} points"


def _merge(outcome: Outcome) -> str:
    undone = " and leaves it again" if outcome.get("undone") else ""
    return f"{outcome.get('version')}: {_names(outcome)} comes to main{undone}"


def _decision(outcome: Outcome) -> str:
    feedback = f": {outcome['feedback']}" if outcome.get("feedback") else ""
    return f"{outcome.get('by')} says {outcome.get('answer')}{feedback}"


def _vault(outcome: Outcome) -> str:
    clean = percent(outcome.get("clean_success"))
    training = Measured.parse(outcome).training
    weights = f", {training}" if training else ""
    return f"vault, {outcome.get('which')}: {clean} clean, n {outcome.get('n')}{weights}"


_DESCRIBE: Final[Mapping[str, Callable[[Outcome], str]]] = {
    "baseline": _baseline,
    "bundle": _bundle,
    "live": _claim,
    "merge": _merge,
    "decision": _decision,
    "lead": lambda lead: f"on lead, unproven: {_names(lead)}" if lead.get("members") else "",
    "vault": _vault,
    "handover": lambda handed: f"handed over, {handed.get('standing')}: {handed.get('words')}",
    "revert": lambda revert: f"{_names(revert)} is taken back by a person",
}
