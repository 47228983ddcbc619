"""A run on paper: what the commands print on stdout when no `--json` was asked for.

Each function takes the reduced state and returns something rich can print. All text that came from
outside is escaped; none is ever read as rich markup.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meta_agent.core.display import DecisionView
from meta_agent.core.ledger import Event, Step
from meta_agent.core.protocols import ROLES
from meta_agent.reports._attribution import attribution_facts, attribution_line
from meta_agent.reports._cells import CELL_COLUMNS, measured_cells
from meta_agent.reports._claims import claim_facts
from meta_agent.reports._format import (
    dollars,
    duration,
    effect_text,
    finding_text,
    interval_bar,
    live_text,
    measured_text,
    one_line,
    percent,
    plain_leaves,
    points,
    prediction_text,
    test_text,
    unit_text,
    value_text,
    vault_text,
    visible,
    within_run,
)
from meta_agent.reports._money import HEADINGS
from meta_agent.reports._money import rows as spend_rows
from meta_agent.reports._parts import CandidateView
from meta_agent.reports._predictions import prediction_facts
from meta_agent.reports._replay import replay_facts
from meta_agent.reports._search import handover_words, search_facts
from meta_agent.reports._sentences import progress, sentences
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal._health import compared, whole
from meta_agent.reports.terminal._style import verdict_style
from meta_agent.reports.terminal._tables import facts_table, listed


def summary(state: RunState) -> RenderableType:
    """The end of a run: before and after, every verdict, the skills, what to type next."""
    parts: list[RenderableType] = [_headline(state), Text()]
    if state.cells:
        parts += [cells(state), Text()]
    if state.candidates:
        parts += [candidates(state.candidates.values()), Text()]
    if state.refused or state.decisions or state.analyses:
        parts += [_said(state), Text()]
    if state.skills:
        parts += [_skills(state), Text()]
    return Group(*parts, *_spent(state), Text(), *_next_commands(state))


def status(state: RunState) -> RenderableType:
    """Where a run stands right now: in sentences, then the figures."""
    told = facts_table()
    _add_sentences(told, state)
    return Group(told, Text(), standing(state))


def standing(state: RunState) -> RenderableType:
    """The figures of where it stands."""
    table = facts_table()
    table.add_row("run", Text(visible(state.run)))
    table.add_row("state", Text(state_word(state)))
    if state.exit_reason is None and state.phase:
        table.add_row("phase", Text(one_line(f"{state.phase} {state.phase_detail}")))
    if state.owner:
        idle = max(0.0, time.time() - state.last_at)
        table.add_row("last sign of life", Text(f"{duration(idle)} ago"))
    for decision in state.waiting:
        table.add_row("waits for", Text(one_line(f"a person: {decision.asks}", 300)))
    for step in state.open_steps:
        table.add_row("in flight", Text(one_line(_open_step(step))))
    if told := progress(state):
        table.add_row("progress", Text(visible(told)))
    table.add_row("candidates", Text(_verdict_counts(state)))
    table.add_row("versions", Text(str(len(state.versions))))
    table.add_row("spend", Group(*_spent(state)))
    return table


def state_word(state: RunState) -> str:
    """`running`, `done`, why it stopped, or that it stopped without a word; and how to go on."""
    if state.exit_reason == "parked":
        return _parked(state)
    if state.exit_reason == "budget":
        return "budget; with a higher cap the same evolve command resumes it"
    if state.exit_reason in ("interrupted", "infrastructure"):
        return f"{state.exit_reason}; the same evolve command resumes it"
    if state.exit_reason:
        return state.exit_reason
    if state.owner:
        return f"running (process {state.owner})"
    return "stopped without finishing; the same evolve command resumes it"


def _parked(state: RunState) -> str:
    if not state.waiting:
        return "parked; every decision is recorded: the same evolve command goes on"
    subjects = " ".join(one.subject for one in state.waiting)
    where = f" --workspace {state.workspace}" if state.workspace else ""
    return visible(f"parked, waits for a person: meta-agent approve {subjects}{where}")


def candidates(every: Iterable[CandidateView]) -> RenderableType:
    """One row per candidate."""
    rows = (
        (
            visible(one.short_id),
            visible(one.label),
            Text(_verdict_word(one), style=verdict_style(one.kind)),
            effect_text(one.effect or one.share),
            one_line("; ".join(one.reasons) or one.statement, 240),
        )
        for one in every
    )
    headings = ("candidate", "factor", "verdict", "clean success, points", "why")
    return listed(headings, rows, whole=range(4))


def cells(state: RunState) -> RenderableType:
    """One row per cell: ideas trained together, and without one of them."""
    return listed(CELL_COLUMNS, measured_cells(state.cells, state.first))


def why(one: CandidateView, decisions: Iterable[DecisionView] = ()) -> RenderableType:
    """All that decided about a candidate: in a sentence and a picture, then the numbers."""
    return Group(*_in_short(one), Text(), _decided(one, decisions))


def _in_short(one: CandidateView) -> list[RenderableType]:
    because = f", because {'; '.join(one.reasons[:2])}" if one.reasons else ""
    told = f"{visible(one.short_id)} is {_verdict_word(one)}{visible(because)}."
    seen = one.effect or one.share
    return [Text(told, style="bold"), *([Text(interval_bar(seen))] if seen else [])]


def _decided(one: CandidateView, decisions: Iterable[DecisionView]) -> RenderableType:
    table = facts_table()
    table.add_row("candidate", Text(f"{visible(one.short_id)} ({visible(one.label)})"))
    table.add_row("hypothesis", Text(visible(one.statement)))
    table.add_row("prediction", Text(prediction_text(one.hypothesis)))
    for line in one.hypothesis.get("evidence") or ():
        table.add_row("rests on", Text(visible(line)))
    for name in one.hypothesis.get("skills") or ():
        table.add_row("skill used", Text(visible(name)))
    for screen in one.screens:
        table.add_row(f"screen {visible(screen.get('stage', ''))}", Text(_screen(screen)))
    for live in one.lives:
        table.add_row(f"live {visible(live.get('split', ''))}", Text(live_text(live)))
    table.add_row("verdict", Text(_verdict_word(one), style=verdict_style(one.kind)))
    for reason in one.reasons:
        table.add_row("because", Text(visible(reason)))
    if one.effect:
        table.add_row("effect", Text(_effect_long(one)))
    if test := test_text(_evidence(one)):
        table.add_row("test", Text(test))
    for name, value in _evidence(one).items():
        if name != "findings":
            for leaf, told in plain_leaves(name, value):
                table.add_row(f"  {visible(leaf)}", Text(within_run(told, one.run)))
    for found in _evidence(one).get("findings") or ():
        table.add_row(f"  {visible(found.get('severity', ''))}", Text(finding_text(found)))
    if one.merge:
        table.add_row("merged as", Text(visible(one.merge.get("commit", ""))))
    for name, told in attribution_facts(one.attribution):
        table.add_row(name, Text(told))
    for decision in decisions:
        table.add_row("decided by", Text(visible(decision.told)))
    return table


def show(one: CandidateView) -> RenderableType:
    """What a candidate is: `why` says what became of it."""
    told = (
        ("candidate", one.short_id),
        ("factor", one.label),
        ("hypothesis", one.statement),
        ("prediction", prediction_text(one.hypothesis)),
        ("ref", one.ref),
        ("commit", one.commit),
        ("base", one.base),
        ("paths", ", ".join(one.paths)),
        ("verdict", _verdict_word(one)),
    )
    return facts_table((name, visible(value)) for name, value in told)


def log(steps: Iterable[Step], events: Iterable[Event]) -> list[Text]:
    """Steps and notes, a line each, oldest first; nothing is cut."""
    rows = [(step.started_at, step.kind, within_run(_step_line(step), step.run)) for step in steps]
    said = (event for event in events if event.kind != "metrics")
    rows += [(event.at, event.kind, within_run(_told(event), event.run)) for event in said]
    found = []
    for at, kind, told in sorted(rows, key=lambda row: row[0]):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        line = Text(stamp, style="dim", no_wrap=True, overflow="ignore")
        flat = " ".join(visible(told).split())
        found.append(line.append(f"  {visible(kind):<10}  {flat}", style="not dim"))
    return found


def _told(event: Event) -> str:
    """A note's own words, a phase and what it is about, of other events the fields."""
    told = event.fields
    if event.kind == "phase":
        return f"{told.get('name')}: {told.get('detail')}"
    note = told.get("text")
    return note if isinstance(note, str) else _flat(event.payload)


def report(
    state: RunState, predictions: Mapping[str, Any] | None = None, every_metric: bool = False
) -> RenderableType:
    """The health of each version, what did the gains, how predictions did, then the summary."""
    few = [compared(state.evidence)] if state.evidence else []
    health = map(whole, state.evidence) if every_metric else few
    parts = [part for table in health for part in (table, Text())]
    facts = facts_table()
    for one in state.candidates.values():
        if one.attribution:
            name = f"{visible(one.short_id)} attributed"
            facts.add_row(name, Text(attribution_line(one.attribution)))
    for name, told in prediction_facts(predictions) if predictions else ():
        facts.add_row(name, Text(told))
    if facts.row_count:
        parts += [facts, Text()]
    return Group(*parts, summary(state))


def diff(patch: str) -> Text:
    """A patch with added and removed lines coloured; every odd character spelled out."""
    text = Text(no_wrap=True, overflow="ignore")
    for line in visible(patch).splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        text.append(line + "\n", style="bold" if line.startswith(("+++", "---", "diff")) else style)
    return text


def facts(rows: Mapping[str, Any]) -> RenderableType:
    """A flat result as name and value."""
    told = ((name, value) for name, value in rows.items() if name != "schema_version")
    return facts_table((visible(name), one_line(value_text(value), 300)) for name, value in told)


def verified(told: Mapping[str, Any]) -> RenderableType:
    """What came of going through a run again, in sentences; then every difference."""
    commit, found = visible(told["commit"][:12]), told["differences"]
    if told["ok"]:
        head = f"{commit} is {told['recorded']}, and computed again it is the same."
    else:
        head = f"{commit} is recorded as {told['recorded']}: {len(found)} differences were found."
    taken = ", ".join(map(visible, told["taken_as_recorded"])) or "nothing"
    parts = [
        Text(head, style="bold"),
        Text(
            f"{told['steps']} steps of its run were gone through again, {told['rows']} attempts "
            f"are behind it, {told['regraded']} were graded again. Taken as recorded: {taken}."
        ),
        Text(f"Head of the journal: {told['journal']}. Kept elsewhere, it shows any rewriting."),
    ]
    parts += [Text(f"decided by {visible(one)}") for one in told["decided"]]
    table = facts_table()
    for one in found:
        sides = (one_line(value_text(one[side]), 120) for side in ("recorded", "recomputed"))
        table.add_row(one_line(one["what"], 60), Text(" -> ".join(sides)))
    return Group(*parts, table)


def settings(config: Mapping[str, Any], plan: Mapping[str, Any]) -> RenderableType:
    """What would run: every setting with where it came from, then the sizes that follow."""
    table = listed(("setting", "value", "from"))
    origin = config.get("origin") or {}
    for name, value in config.items():
        if name != "origin":
            shown = "–" if value in (None, {}) else one_line(_setting(value), 400)
            table.add_row(visible(name), Text(shown), Text(visible(origin.get(name, "")), "dim"))
    for name, value in plan.items():
        table.add_row(f"plan: {visible(name)}", Text(value_text(value)), Text("follows", "dim"))
    return table


def _setting(value: Any) -> str:
    """A table by role as its pairs; one value for all roles once."""
    if not isinstance(value, dict):
        return str(value)
    same = len(set(map(str, value.values()))) == 1 and set(value) == set(ROLES)
    return f"all={value[ROLES[0]]}" if same else "  ".join(f"{k}={v}" for k, v in value.items())


def checks(rows: Iterable[tuple[str, str, str, str]]) -> RenderableType:
    """`doctor`: level, name, detail, and the fix where there is one."""
    table = Table.grid(padding=(0, 2))
    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    for level, name, detail, fix in rows:
        told = Text(visible(detail))
        if fix:
            told.append(f"\n{visible(fix)}", style="bold")
        table.add_row(Text(level, style=styles.get(level, "")), Text(visible(name)), told)
    return table


def lines(texts: Iterable[str]) -> Text:
    """Lines that were made elsewhere, made harmless here."""
    made = "\n".join(visible(text) for text in texts)
    return Text(made, no_wrap=True, overflow="ignore")


def _headline(state: RunState) -> RenderableType:
    table = facts_table()
    table.add_row("run", Text(visible(f"{state.run}  {state.exit_reason or 'not finished'}")))
    _add_sentences(table, state)
    if told := handover_words(state):
        table.add_row("handed over", Text(one_line(told, 400), style="bold"))
    table.add_row("before", Text(measured_text(state.baseline)))
    table.add_row("after", Text(measured_text(state.final)))
    table.add_row("", Text(vault_text(state.final), style="dim"))
    for name, value in (*search_facts(state), *claim_facts(state)):
        table.add_row(name, Text(one_line(value, 500)))
    for name, value in replay_facts(state):
        table.add_row(name, Text(one_line(value, 300)))
    return table


def _add_sentences(table: Table, state: RunState) -> None:
    for one in sentences(state):
        command = f"\n{one.command}" if one.command else ""
        table.add_row(one.about, Text(one.words).append(command, style="bold"))


def _said(state: RunState) -> RenderableType:
    """Drafts that were refused, what analysts noted, and what people decided."""
    table = facts_table()
    for said in state.analyses:
        if said.noted:
            table.add_row("noted", Text(one_line(f"g{said.generation}  {said.noted}", 300)))
    for refused in state.refused:
        told = f"{refused.code}: {refused.reason} ({refused.statement})"
        table.add_row("refused", Text(one_line(f"g{refused.generation}  {told}", 300)))
    for decision in state.decisions:
        table.add_row("decided", Text(one_line(f"{decision.subject}  {decision.told}", 300)))
    return table


def _skills(state: RunState) -> RenderableType:
    return facts_table(
        (
            "warns" if skill.negative else "skill",
            one_line(f"{skill.name}  {skill.description}", 240),
        )
        for skill in state.skills
    )


def spend_line(state: RunState) -> Text:
    """All that a run has used so far, on one line."""
    return Text(
        f"{dollars(state.usd)}, {state.tokens} API tokens, {state.rollouts} rollouts, "
        f"{state.train_steps} training steps, {state.confirm_queries} looks at the confirm split, "
        f"{duration(state.wall_sec)}"
    )


def _spent(state: RunState) -> list[RenderableType]:
    """The line for the whole run, and one row per role where models were asked."""
    if not state.spend:
        return [spend_line(state)]
    rows = (map(visible, row) for row in spend_rows(state.spend))
    return [spend_line(state), listed(HEADINGS, rows, right=range(1, 5), whole=range(3))]


def _next_commands(state: RunState) -> list[RenderableType]:
    where = f" --workspace {visible(state.workspace)}" if state.workspace else ""
    lines = [f"meta-agent report --html report.html{where}"]
    if state.candidates:
        last = list(state.candidates.values())[-1].short_id
        lines += [
            f"meta-agent why {visible(last)}{where}",
            f"meta-agent diff {visible(last)}{where}",
        ]
    if state.workspace:
        lines.append(f"git -C {visible(state.workspace)}/harness_repo log --graph --notes")
    return [Text(line, style="dim") for line in lines]


def _verdict_word(one: CandidateView) -> str:
    if one.reverted is not None:
        return f"{one.kind} (taken back)"
    if one.declined is not None:
        return f"{one.kind} (declined)"
    return f"{one.kind} (screened out)" if one.screened_out else one.kind


def _verdict_counts(state: RunState) -> str:
    kinds = [one.kind for one in state.candidates.values()]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "none yet"


def _effect_long(one: CandidateView) -> str:
    effect = one.effect
    assert effect is not None
    return (
        f"{points(effect.delta)} points of clean success, interval at the run's alpha "
        f"[{points(effect.ci_low)}, {points(effect.ci_high)}]{effect.selected}, "
        f"{effect.pairs} pairs, "
        f"{unit_text(effect.training_seeds)}"
    )


def _evidence(one: CandidateView) -> dict[str, Any]:
    evidence = (one.verdict or {}).get("evidence")
    return evidence if isinstance(evidence, dict) else {}


def _screen(screen: Mapping[str, Any]) -> str:
    word = "passed" if screen.get("passed") else "failed"
    reasons = "; ".join(str(reason) for reason in screen.get("reasons") or ())
    return one_line(
        " ".join(part for part in (word, reasons, _flat(screen.get("numbers"))) if part)
    )


def _open_step(step: Step) -> str:
    failure = f": {step.error}" if step.error else ""
    return f"{step.kind} {_key(step)}, attempt {step.attempts}{failure}"


def _step_line(step: Step) -> str:
    if not step.done:
        return f"{_open_step(step)} (not done)"
    took = "" if step.duration_sec is None else f" in {duration(step.duration_sec)}"
    outcome = step.fields
    clean = outcome.get("clean_success")
    extra = f", clean success {percent(clean)}" if isinstance(clean, float) else ""
    kind = f", {outcome['kind']}" if step.kind == "verdict" and "kind" in outcome else ""
    return f"{_key(step)}{took}{extra}{kind}"


def _key(step: Step) -> str:
    """Without the run's name: a screen is about one run."""
    return step.key.partition("/")[2] or step.key


def _flat(value: Any) -> str:
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    return "  ".join(f"{name} {value_text(item)}" for name, item in value.items())
