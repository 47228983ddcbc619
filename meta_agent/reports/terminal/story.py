"""A harness's history on paper: who brought which line, what happened when, what was taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meta_agent.core.ledger import Step
from meta_agent.core.protocols import JSON
from meta_agent.reports._format import effect_text, one_line, percent, visible
from meta_agent.reports._parts import BlamedLine, CandidateView, Measured, parse_effect
from meta_agent.reports.terminal._style import verdict_style


class Moment(NamedTuple):
    """Something that changed what is in one's hands, or what is known of it."""

    at: float
    run: str
    kind: str
    commit: str
    told: str


def moments(steps: Sequence[Step]) -> list[Moment]:
    """What a reader wants of all that was recorded, oldest first."""
    found = []
    for step in steps:
        told = step.fields
        if step.done and (said := _TELL.get(step.kind, _nothing)(told)):
            commit = str(told.get("commit") or told.get("harness_commit") or "")
            at = step.finished_at or step.started_at
            found.append(Moment(at, step.key.partition("/")[0], step.kind, commit, said))
    return found


def timeline(told: Sequence[Moment]) -> RenderableType:
    """A line each; the run's name only where there are several."""
    several = len({one.run for one in told if one.kind != "revert"}) > 1
    table = Table.grid(padding=(0, 2))
    for one in told:
        stamp = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.at))
        run = [Text(visible(one.run))] if several else []
        commit = Text(visible(one.commit[:8]), style="yellow")
        table.add_row(Text(stamp, style="dim"), *run, commit, Text(visible(one.told)))
    return table if told else Text("nothing has changed the harness yet")


def timeline_json(told: Sequence[Moment]) -> dict[str, JSON]:
    """The same as a document."""
    return {"schema_version": 1, "moments": [one._asdict() for one in told]}


def blame(lines: Sequence[BlamedLine]) -> RenderableType:
    """As git does, with the candidate and its verdict in place of author and date."""
    text = Text(no_wrap=True, overflow="ignore")
    for one in lines:
        known = one.candidate
        who = f"{known.short_id} {known.kind}" if known else one_line(one.subject, 24)
        effect = effect_text(known.effect or known.share) if known else ""
        text.append(f"{one.commit[:8]} ", style="yellow")
        text.append(f"{visible(who):<24} ", style=verdict_style(known.kind) if known else "dim")
        text.append(f"{effect:>21} {one.number:>4}) {visible(one.text)}\n")
    return text


def blame_json(file: str, commit: str, lines: Sequence[BlamedLine]) -> dict[str, JSON]:
    """The same as a document."""
    rows = [{**one._asdict(), "candidate": _candidate(one.candidate)} for one in lines]
    return {"schema_version": 1, "file": file, "commit": commit, "lines": rows}


def reverted(done: Sequence[Mapping[str, JSON]], workspace: str) -> RenderableType:
    """What was taken back, and how what is left is judged."""
    lines = [f"{one['candidate']} is taken back by {str(one['commit'])[:12]}" for one in done]
    next_run = f"meta-agent evolve --seed 1 --workspace {workspace}"
    lines.append(f"what is left was not judged yet; a run with another seed does: {next_run}")
    return Group(*(Text(visible(line)) for line in lines))


def _candidate(one: CandidateView | None) -> JSON:
    return one.to_json() if one else None


def _nothing(told: Mapping[str, Any]) -> str:
    del told
    return ""


def _names(told: Mapping[str, Any]) -> str:
    members = told.get("members") or [told.get("candidate")]
    return ", ".join(str(name).partition("/")[2] or str(name) for name in members)


def _baseline(told: Mapping[str, Any]) -> str:
    clean = percent(told.get("clean_success"))
    return f"{told.get('version')} is where it starts: {clean} clean on {told.get('split')}"


def _bundle(told: Mapping[str, Any]) -> str:
    if not told.get("chosen"):
        return ""
    return f"generation {told.get('generation')} goes on from the cell {told['chosen']}"


def _claim(told: Mapping[str, Any]) -> str:
    verdict = told.get("verdict")
    if not told.get("claim") or not isinstance(verdict, dict):
        return ""
    effect = effect_text(parse_effect(verdict.get("effect")))
    return f"claim about this {told['claim']}: {verdict.get('kind')} {effect} points"


def _merge(told: Mapping[str, Any]) -> str:
    left = " and leaves it again" if told.get("undone") else ""
    return f"{told.get('version')}: {_names(told)} comes to main{left}"


def _decision(told: Mapping[str, Any]) -> str:
    said = f": {told['feedback']}" if told.get("feedback") else ""
    return f"{told.get('by')} says {told.get('answer')}{said}"


def _vault(told: Mapping[str, Any]) -> str:
    clean = percent(told.get("clean_success"))
    training = Measured.parse(told).training
    with_what = f", {training}" if training else ""
    return f"vault, {told.get('which')}: {clean} clean, n {told.get('n')}{with_what}"


_TELL: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "baseline": _baseline,
    "bundle": _bundle,
    "live": _claim,
    "merge": _merge,
    "decision": _decision,
    "lead": lambda told: f"on lead, unproven: {_names(told)}" if told.get("members") else "",
    "vault": _vault,
    "handover": lambda told: f"handed over, {told.get('standing')}: {told.get('words')}",
    "revert": lambda told: f"{_names(told)} is taken back by a person",
}
