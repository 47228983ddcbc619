"""A run as sections: what `report`, `status`, `why` and the page show, derived once from its state.

`summary` is the end of a run, `status` where it is now, `page` everything. Sections with nothing to
say are left out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from meta_agent.core.display import DecisionView
from meta_agent.core.ledger import Step
from meta_agent.core.ledger.waiting import Wait
from meta_agent.core.protocols import ROLES
from meta_agent.reports import run_figures
from meta_agent.reports._facts import (
    claim_facts,
    figures,
    handover_words,
    outcome_facts,
    proof_word,
    replay_facts,
)
from meta_agent.reports._format import (
    dollars,
    duration,
    effect_text,
    finding_text,
    live_text,
    one_line,
    percent,
    points,
    points_text,
    prediction_text,
    test_text,
    unit_text,
    value_text,
    within_run,
)
from meta_agent.reports._money import HEADINGS
from meta_agent.reports._money import rows as spend_rows
from meta_agent.reports._parts import CandidateView, CellView, SkillView, parse_effect
from meta_agent.reports._sentences import progress, sentences
from meta_agent.reports.evidence_sections import evidence_section
from meta_agent.reports.sections import (
    Attempts,
    Block,
    Cell,
    Facts,
    Fold,
    Folds,
    Page,
    Patch,
    Section,
    Table,
    Words,
    present,
)
from meta_agent.reports.state import RunState
from meta_agent.skills import load_skill

_CELL_COLUMNS: Final = ("", "cell", "members", "search split", "points", "")
_FIGURE_COLUMNS: Final = ("figure", "value", "what it compares, and where")
SENTENCES: Final = "sentences"
_VERDICT_WORDS: Final = defaultdict(
    lambda: "not judged",
    PROMOTE="accepted",
    REJECT="rejected",
    INVALID="thrown out",
    INCONCLUSIVE="not decided",
)
_DIFF_LINES: Final = 120  # of the whole change, on a screen
_CANDIDATE_COLUMNS: Final = ("candidate", "factor", "verdict", "its own points", "what, or why not")


# --- whole screens ------------------------------------------------------------------------------


def summary(state: RunState) -> list[Section]:
    """Returns a run's summary: what happened, what is claimed, what was tried, and the spend."""
    run = ("run", f"{state.run}, {state.exit_reason or 'not finished'}")
    first = Facts([run, *_sentence_rows(state), *replay_facts(state)])
    return present(Section([first]), _claims(state), *_details(state), _changes(state))


def status(state: RunState) -> list[Section]:
    """Returns where a run stands now: what happened in sentences, then the present figures."""
    sections = (Section([Facts(rows(state))]) for rows in (_sentence_rows, _present_rows))
    return present(*sections, Section(_spend_by_role(state)), _changes(state))


def page(state: RunState, *, every_metric: bool = False, attempts: Attempts | None = None) -> Page:
    """Returns everything that is known about a run, for `report` on a terminal and as a page.

    With `every_metric`, the line on how to see the other metrics is left out. `attempts` is the
    map of stored attempts.
    """
    config = state.config
    lines = [
        f"run {state.run} · domain {state.domain} · policy {config.get('policy', '')} · "
        f"meta-agent {config.get('meta_model', '')}"
    ]
    sections = present(
        Section([Facts(_sentence_rows(state))], "", SENTENCES),
        Section([Facts(_present_rows(state))] if state.exit_reason != "done" else []),
        _way(state),
        _claims(state),
        *_details(state, [attempts] if attempts else []),
        _training(state),
        evidence_section(state.evidence, every_metric=every_metric),
        _settings(state),
        _changes(state),
    )
    footer = Words(
        f"Made by meta-agent from {state.workspace}/ledger.sqlite. The same numbers:",
        command="meta-agent report --json",
    )
    return Page(f"run {state.run}", _headline(state), lines, sections, footer)


def _headline(state: RunState) -> str:
    """Returns the one figure of a run: its claim, or without one the change on the vault."""
    back = f"; {state.taken_back} taken back since, main unmeasured" if state.taken_back else ""
    for verdict in state.claims.values():  # the claim about the harness is the first
        if effect := parse_effect(verdict.get("effect")):
            return f"Clean success {effect_text(effect)} points, {proof_word(verdict)}{back}"
    if state.baseline and state.final:
        before, after = (percent(side.clean_success) for side in (state.baseline, state.final))
        unproven = (state.handover or {}).get("standing") == "unproven"
        return f"Clean success {before} → {after}{', the harness unproven' * unproven}{back}"
    return "No idea was tried" if state.nothing_tried else f"meta-agent run {state.run}"


def _present_rows(state: RunState) -> list[tuple[str, Cell]]:
    """Returns the figures of a run's present state."""
    kinds = counts(verdict_word(candidate) for candidate in state.candidates.values())
    rows: list[tuple[str, Cell]] = [("run", state.run), ("state", state_word(state))]
    rows += replay_facts(state)
    if state.exit_reason is None and state.phase:
        rows.append(("phase", f"{state.phase} {state.phase_detail}"))
    if state.owner:
        idle = max(0.0, time.time() - state.alive_at)
        rows.append(("last sign of life", f"{duration(idle)} ago"))
    rows += [("waits for", f"a person: {decision.asks}") for decision in state.waiting]
    if state.is_at_work:
        by_subject = {wait.subject: wait for wait in reversed(state.waits.waits)}
        rows += [("waits for", _wait_row(wait)) for wait in reversed(by_subject.values())]
    rows += [("in flight", open_step_text(step)) for step in state.open_steps]
    if words := progress(state):
        rows.append(("progress", words))
    rows += [("candidates", kinds or "none yet"), ("versions", str(len(state.versions)))]
    rows.append(("spend", spend_line(state)))
    return rows


def _wait_row(wait: Wait) -> str:
    lasting = f"for {duration(max(0.0, time.time() - wait.since))}"
    return "; ".join(filter(None, (wait.subject, lasting, wait.progress)))


def _details(state: RunState, attempts: Sequence[Attempts] = ()) -> Iterator[Section]:
    """Yields what was tried, what it brought and what it cost."""
    yield _bundles(state)
    yield _candidates(state)
    yield Section(list(attempts), "Attempts", "attempts")
    yield _people(state)
    yield _skills(state)
    yield _spend(state)


def why(candidate: CandidateView, decisions: Iterable[DecisionView] = ()) -> list[Section]:
    """Returns why a candidate got its verdict: a sentence, then what it rests on."""
    because = f": {'; '.join(candidate.reasons[:2])}" if candidate.reasons else ""
    ending = f"{_VERDICT_WORDS[candidate.kind]} ({verdict_word(candidate)}){because}"
    verdict = Words(f"{candidate.short_id} was {ending}.", "strong")
    numbers = Words("Every number:", "dim", command=f"meta-agent why {candidate.short_id} --json")
    return [Section([verdict]), Section([_decided(candidate, decisions), numbers])]


def questions(state: RunState) -> list[Section]:
    """Returns every open question to a person, what is known, and the command that answers it."""
    nothing = Section([Words(f"nothing waits for a person in run {state.run}")])
    return [_question(state, decision) for decision in state.waiting] or [nothing]


def _question(state: RunState, decision: DecisionView) -> Section:
    rows: list[tuple[str, Cell]] = [("failed", name) for name in decision.failed]
    if candidate := state.candidates.get(decision.candidate or ""):
        verdict = dict(decision.verdict) if decision.verdict else candidate.verdict
        rows += _decided(replace(candidate, verdict=verdict), ()).rows
    rows.append(("spent so far", spend_line(state)))
    answers = '[--revise "WHAT SHOULD CHANGE" | --abort]'
    command = f"meta-agent approve {decision.subject} {answers}{state.workspace_flag}"
    return Section([Facts(rows, limit=0), Words("", command=command)], decision.asks)


# --- the beginning of every screen --------------------------------------------------------------


def _sentence_rows(state: RunState) -> list[tuple[str, Cell]]:
    return [(part.about, Words(part.words, command=part.command)) for part in sentences(state)]


def state_word(state: RunState) -> str:
    """Returns `running`, `done` or why the run stopped, and how to resume it."""
    if state.exit_reason == "parked":
        return _parked(state)
    if state.exit_reason == "budget":
        return f"budget; with a higher cap the same {state.command} command resumes it"
    if state.exit_reason in ("interrupted", "infrastructure"):
        return f"{state.exit_reason}; the same {state.command} command resumes it"
    if state.exit_reason:
        return state.exit_reason
    if state.owner:
        return f"running (process {state.owner})"
    return f"stopped without finishing; the same {state.command} command resumes it"


def _parked(state: RunState) -> str:
    if not state.waiting:
        return "parked; every decision is recorded: the same evolve command resumes it"
    subjects = " ".join(decision.subject for decision in state.waiting)
    return f"parked, waits for a person: meta-agent approve {subjects}{state.workspace_flag}"


def _way(state: RunState) -> Section:
    return Section([run_figures.way(state), run_figures.way_table(state)], "How it went", "way")


def _claims(state: RunState) -> Section:
    """Returns what is handed over and why, and one table of figures with what each compares."""
    words = handover_words(state)
    rows: list[tuple[str, Cell]] = [("handed over", Words(words, "strong"))] if words else []
    facts = Facts([*rows, *outcome_facts(state), *claim_facts(state)])
    table = Table(_FIGURE_COLUMNS, list(figures(state)), whole=(0, 1), limit=0)
    chart = [] if run_figures.way(state).rows else [run_figures.vault(state)]
    return Section([*chart, table, facts], "What is claimed", "claims")


def _changes(state: RunState) -> Section:
    """Returns the harness before and after as a diff, without git's own lines on the files."""
    lines = [line for line in state.diff.splitlines() if not line.startswith(("diff ", "index "))]
    hidden = len(lines) - _DIFF_LINES
    command = f"meta-agent diff v0 {state.product['harness_commit']}{state.workspace_flag}"
    end = Words(f"{hidden} more lines:", "dim", command=command) if hidden > 0 else Words("")
    return Section([Patch("\n".join(lines[:_DIFF_LINES])), end], "What changed", "changes")


# --- bundles and candidates ---------------------------------------------------------------------


def _bundles(state: RunState) -> Section:
    """Returns a chart and a table of all cells: bundles, and bundles without one of their ideas."""
    if not state.cells:
        return Section([])
    share = state.first.clean_success if state.first else None
    start = ("", "start", "", percent(share), "", "")
    words = (
        "Ideas trained together and without each: clean success on the search split, training "
        "seed 0, against the version that the cell builds on. Only the claim is proven."
    )
    table = Table(_CELL_COLUMNS, [start, *map(_cell_row, state.cells)], whole=(3, 4))
    return Section([Words(words, "dim"), table], "Bundles", "cells")


def _cell_row(cell: CellView) -> tuple[str, ...]:
    names = " ".join("/".join(name.split("/")[-2:]) for name in cell.members)
    share = "failed" if cell.clean_success is None else percent(cell.clean_success)
    gain = "–" if cell.delta is None else points(cell.delta)
    outcome = "continued from" if cell.chosen else "" if cell.valid else one_line(cell.why, 160)
    return f"g{cell.generation}", cell.name, names, share, gain, outcome


def _candidates(state: RunState) -> Section:
    folds = [
        Fold(
            _row(candidate),
            [_decided(candidate, state.decisions_on(candidate.id)), Patch(candidate.diff)],
        )
        for candidate in state.candidates.values()
    ]
    rows = Folds(folds, _CANDIDATE_COLUMNS, whole=range(4))
    blocks: list[Block] = [run_figures.effects(state), rows]
    return Section(blocks if folds else [], "What was tried", "candidates")


def _row(candidate: CandidateView) -> tuple[Cell, ...]:
    return (
        candidate.short_id,
        candidate.label,
        Words(verdict_word(candidate), kind="" if _is_doubtful(candidate) else candidate.kind),
        effect_text(candidate.estimate) if candidate.estimate else "",
        "; ".join((candidate.change, *(() if candidate.merge else candidate.reasons[:2]))),
    )


def verdict_word(candidate: CandidateView) -> str:
    """Returns a candidate's verdict, marked if it was a bundle's, taken back or screened out."""
    if candidate.reverted is not None:
        return f"{candidate.kind} (taken back)"
    if candidate.declined is not None:
        return f"{candidate.kind} (declined)"
    if candidate.merge and candidate.share:
        return f"{candidate.kind} (in a bundle)"
    return f"{candidate.kind} (screened out)" if candidate.screened_out else candidate.kind


def _is_doubtful(candidate: CandidateView) -> bool:
    """Returns True for a member of a proven bundle whose own share may be nothing."""
    share = candidate.share
    return bool(candidate.merge and share and share.ci_low <= 0)


def _decided(candidate: CandidateView, decisions: Iterable[DecisionView]) -> Facts:
    """Returns what a verdict rests on, in words; `why --json` has every number."""
    hypothesis, evidence = candidate.hypothesis, _evidence_of(candidate)
    rows: list[tuple[str, Cell]] = [
        ("candidate", f"{candidate.short_id} ({candidate.label})"),
        ("hypothesis", candidate.statement),
        ("prediction", prediction_text(hypothesis)),
        ("changes", ", ".join(candidate.paths)),
    ]
    rows += [("may break", str(line)) for line in hypothesis.get("risks") or ()]
    rows += [("rests on", str(line)) for line in hypothesis.get("evidence") or ()]
    rows += [("skill used", str(name)) for name in hypothesis.get("skills") or ()]
    rows += [(f"screen {screen.get('stage', '')}", _screen(screen)) for screen in candidate.screens]
    rows += [(f"live {look.get('split', '')}", live_text(look)) for look in candidate.lives]
    rows.append(("verdict", Words(verdict_word(candidate), kind=candidate.kind)))
    rows += [("because", reason) for reason in candidate.reasons]
    if effect := candidate.effect:
        interval = points_text(effect).replace(
            "points", "points of clean success, interval at the run's alpha"
        )
        units = f"{effect.pairs} pairs, {unit_text(effect.training_seeds)}"
        rows.append(("effect", f"{interval}{effect.selected}, {units}"))
    if test := test_text(evidence):
        rows.append(("test", test))
    for finding in evidence.get("findings") or ():
        rows.append((f"  {finding.get('severity', '')}", finding_text(finding)))
    if candidate.merge:
        rows.append(("merged as", str(candidate.merge.get("commit", ""))))
    rows += [("decided by", decision.answer_sentence) for decision in decisions]
    return Facts([*rows, ("commit", candidate.commit)], limit=0)


def _screen(screen: Mapping[str, Any]) -> str:
    outcome = "passed" if screen.get("passed") else "failed"
    return " ".join((outcome, "; ".join(str(reason) for reason in screen.get("reasons") or ())))


def _evidence_of(candidate: CandidateView) -> dict[str, Any]:
    evidence = (candidate.verdict or {}).get("evidence")
    return evidence if isinstance(evidence, dict) else {}


def _people(state: RunState) -> Section:
    """Returns what analysts noted, which drafts were refused, and what people decided."""
    rows = [
        ("noted", f"g{analysis.generation}  {analysis.noted}")
        for analysis in state.analyses
        if analysis.noted
    ]
    for draft in state.refused:
        reason = f"{draft.code}: {draft.reason} ({draft.statement})"
        rows.append(("refused", f"g{draft.generation}  {reason}"))
    for decision in state.decisions:
        rows.append(("decided", f"{decision.subject}  {decision.answer_sentence}"))
    return Section([Facts(rows, limit=300)], "Notes, refused drafts and decisions", "people")


# --- training -----------------------------------------------------------------------------------


def _training(state: RunState) -> Section:
    return Section([run_figures.training(state)], "Training", "training")


# --- skills, spend, settings, commands ----------------------------------------------------------


def _skills(state: RunState) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for skill in map(_as_it_stands, state.skills):
        name = (
            Words(f"{skill.name} (warns)", "warn")
            if skill.negative
            else Words(skill.name, "strong")
        )
        source = within_run(skill.candidate or "", state.run)
        rows.append((name, source, skill.status, skill.worth or "not tried", skill.description))
    headings = ("skill", "from", "standing", "worth", "what it says")
    return Section([Table(headings, rows)], "Skills written", "skills")


def _as_it_stands(skill: SkillView) -> SkillView:
    """Returns the skill with what trials found since: it outlives the run that wrote it."""
    now = load_skill(Path(skill.path)) if skill.path else None
    return replace(skill, status=now.status, worth=now.get("worth")) if now else skill


def spend_line(state: RunState) -> str:
    """Returns the money, tokens, rollouts, steps and time that a run has used, on one line."""
    return (
        f"{dollars(state.usd)}, {state.tokens} API tokens, {state.rollouts} rollouts, "
        f"{state.train_steps} training steps, {state.confirm_queries} looks at the confirm split, "
        f"{duration(state.wall_sec)}"
    )


def _spend(state: RunState) -> Section:
    """Returns one line for the whole run, and one row for each role that asked models."""
    nobody = "No model behind a server was asked."
    if state.replay:
        nobody = "Replies came from a recording: no model was asked or paid."
    by_role = _spend_by_role(state) or [Words(nobody, "dim")]
    figures = [run_figures.hours(state), run_figures.money(state)]
    return Section([Words(spend_line(state)), *figures, *by_role], "Time and money", "spend")


def _spend_by_role(state: RunState) -> list[Block]:
    words = (
        "Not settled: set aside for calls whose outcome nobody knows; it counts against the "
        "caps. A price that is not known is unknown, never 0."
    )
    table = Table(HEADINGS, list(spend_rows(state.spend)), numbers=range(1, 5), whole=range(3))
    return [table, Words(words, "dim")] if state.spend else []


def _settings(state: RunState) -> Section:
    fold = Fold(("Settings of this run",), [settings_table(state.config)])
    return Section([Folds([fold])] if state.config else [])


def settings_table(config: Mapping[str, Any], *, chosen: bool = False) -> Table:
    """Returns a table of every setting with its origin; with `chosen`, without the defaults."""
    origin = config.get("origin") or {}
    rows = [
        (name, _setting(value), Words(str(origin.get(name, "")), "dim"))
        for name, value in config.items()
        if name != "origin" and not (chosen and origin.get(name, "default") == "default")
    ]
    return Table(("setting", "value", "from"), rows, limit=400)


def _setting(value: Any) -> str:
    """Returns a setting as text; a mapping by role as pairs, or as one value if all are equal."""
    if value in (None, {}):
        return "–"
    if not isinstance(value, dict):
        return value_text(value)
    same = len(set(map(str, value.values()))) == 1 and set(value) == set(ROLES)
    pairs = (f"{name}={inner}" for name, inner in value.items())
    return f"all={value[ROLES[0]]}" if same else "  ".join(pairs)


# --- words --------------------------------------------------------------------------------------


def open_step_text(step: Step) -> str:
    """Returns an unfinished ledger step as text: its kind, its key, its tries, its last error."""
    failure = f": {step.error}" if step.error else ""
    key = step.key.partition("/")[2] or step.key
    return f"{step.kind} {key}, attempt {step.attempts}{failure}"


def counts(kinds: Iterable[str]) -> str:
    """Returns how often each word occurs in `kinds`: `3 PROMOTE, 1 REJECT`; empty if none does."""
    every = list(kinds)
    return ", ".join(f"{every.count(kind)} {kind}" for kind in dict.fromkeys(every))
