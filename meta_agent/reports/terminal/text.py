"""What the commands print for people: screens of a run, and small results of other commands."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from meta_agent.core.ledger import Event, Ledger, Step
from meta_agent.core.protocols import JSON
from meta_agent.reports._format import duration, one_line, percent, value_text, visible, within_run
from meta_agent.reports.reducer import reduce
from meta_agent.reports.run_sections import open_step_text, state_word
from meta_agent.reports.sections import Cell, Facts, Section, Style, Table, Words
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal.paint import lines, painted

LOOK_SEC: Final = 1.0
_SKILL_FACTS: Final = ("status", "kind", "domain", "worth", "origin", "licence", "path")


def facts(rows: Mapping[str, Any]) -> RenderableType:
    """Returns a mapping as rows of names and values for the terminal."""
    pairs = ((name, value_text(value)) for name, value in rows.items() if name != "schema_version")
    return painted([Facts(list(pairs), limit=300)])


def rows_table(rows: Sequence[Mapping[str, Any]], without: str = "") -> RenderableType:
    """Returns a table of one or more rows with the same fields, less the field `without`."""
    names = [name for name in rows[0] if name != without]
    cells = [tuple(value_text(row[name]) for name in names) for row in rows]
    return painted([Table(names, cells, whole=(0,), limit=0)])


def log(steps: Iterable[Step], events: Iterable[Event]) -> list[Text]:
    """Returns a line for each step and event of a run, oldest first, without training metrics."""
    rows = [(step.started_at, step.kind, within_run(_step_line(step), step.run)) for step in steps]
    rows += [
        (event.at, event.kind, within_run(_event_line(event), event.run))
        for event in events
        if event.kind != "metrics"
    ]
    printed = []
    for at, kind, words in sorted(rows, key=lambda row: row[0]):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        line = Text(stamp, style="dim", no_wrap=True, overflow="ignore")
        flat = " ".join(visible(words).split())
        printed.append(line.append(f"  {visible(kind):<10}  {flat}", style="not dim"))
    return printed


def follow(ledger: Ledger, run: str | None) -> None:
    """Prints a run's log, then each new line, until the run ends or its process is gone.

    Reads the ledger once a second. `run` None means the newest; no such run raises ConfigError.
    """
    console = Console(highlight=False, soft_wrap=True)
    printed: set[str] = set()
    for state in states(ledger, run):
        for line in log(ledger.steps(state.run), ledger.events(state.run)):
            if line.plain not in printed:
                printed.add(line.plain)
                console.print(line)
        sys.stdout.flush()
    console.print(Text(state_word(state)))


def states(ledger: Ledger, run: str | None) -> Iterator[RunState]:
    """Yields the state now, and again every second while a process works on the run."""
    state = reduce(ledger, run)
    yield state
    while state.is_at_work:
        time.sleep(LOOK_SEC)
        state = reduce(ledger, state.run)
        yield state


def reverted(reverts: Sequence[Mapping[str, JSON]], workspace: str) -> RenderableType:
    """Returns which candidates were reverted by which commits, and how to judge what remains."""
    texts = [f"{row['candidate']} is taken back by {str(row['commit'])[:12]}" for row in reverts]
    next_run = f"meta-agent evolve --seed 1 --workspace {shlex.quote(workspace)}"
    texts.append(f"what is left was not judged yet; a run with another seed does: {next_run}")
    return lines(texts)


def _step_line(step: Step) -> str:
    if not step.is_done:
        return f"{open_step_text(step)} (not done)"
    took = "" if step.duration_sec is None else f" in {duration(step.duration_sec)}"
    clean = step.fields.get("clean_success")
    share = f", clean success {percent(clean)}" if isinstance(clean, float) else ""
    is_verdict = step.kind == "verdict" and "kind" in step.fields
    verdict = f", {step.fields['kind']}" if is_verdict else ""
    return f"{step.key.partition('/')[2] or step.key}{took}{share}{verdict}"


def _event_line(event: Event) -> str:
    """Returns a note's text, a phase with its detail, or the fields of another event."""
    if event.kind == "phase":
        return f"{event.fields.get('name')}: {event.fields.get('detail')}"
    note = event.fields.get("text")
    return note if isinstance(note, str) else value_text(event.payload)


def verified(document: Mapping[str, Any]) -> RenderableType:
    """Returns the result of `verify` for the terminal: sentences, then every difference."""
    commit, differences = document["commit"][:12], document["differences"]
    verdict = f"{commit} is {document['recorded']}, and computed again it is the same."
    if not document["ok"]:
        count = f"{len(differences)} differences were found."
        verdict = f"{commit} is recorded as {document['recorded']}: {count}"
    taken = ", ".join(document["taken_as_recorded"]) or "nothing"
    sentences = [
        Words(verdict, "strong"),
        Words(
            f"{document['steps']} steps of its run were gone through again, {document['rows']} "
            f"attempts are behind it, {document['regraded']} were graded again. "
            f"Taken as recorded: {taken}."
        ),
        Words(
            f"Head of the journal: {document['journal']}. Kept elsewhere, it shows any rewriting."
        ),
        *(Words(f"decided by {words}") for words in document["decided"]),
    ]
    rows = [(one_line(part["what"], 60), _sides(part)) for part in differences]
    return painted([*sentences, Facts(rows)])


def _sides(difference: Mapping[str, Any]) -> str:
    sides = (difference[side] for side in ("recorded", "recomputed"))
    return " -> ".join(one_line(value_text(side), 120) for side in sides)


def checks(rows: Iterable[tuple[str, str, str, str]]) -> RenderableType:
    """Returns a table of `doctor`'s checks: level, name, detail, and the command that repairs."""
    styles: Mapping[str, Style] = {"ok": "good", "warn": "warn", "fail": "bad"}
    cells = [
        (Words(level, styles.get(level, "")), name, Words(detail, command=fix))
        for level, name, detail, fix in rows
    ]
    return painted([Table(("", "", ""), cells, whole=(0, 1), limit=0)])


def skills_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Returns a table of skills: name, status, domain, and measured worth or description."""
    cells = [
        {
            "skill": row["name"],
            "standing": ("avoid, " if row["kind"] == "negative" else "") + row["status"],
            "domain": row["domain"],
            "worth, or what it is about": row["worth"] or row["description"].partition(". ")[0],
        }
        for row in rows
    ]
    return rows_table(cells) if cells else Text("there is no skill")


def skill_page(row: Mapping[str, Any]) -> RenderableType:
    """Returns one skill's facts, trials and warnings, then its text, for the terminal."""
    rows: list[tuple[str, Cell]] = [("skill", Words(row["name"], "strong"))]
    rows += [(name, str(row[name])) for name in _SKILL_FACTS if row[name]]
    rows += [("trial", trial["words"]) for trial in row["trials"]]
    rows += [("warning", warning) for warning in row["warnings"]]
    head = painted([Section([Facts(rows, limit=0)]), Section([Words(row["description"])])])
    return Group(head, Text(), lines(row["body"].splitlines()))
