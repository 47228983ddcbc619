"""Skills on the terminal: a library as a table, one whole, and what a search brought up and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from meta_agent.reports.sections import Cell, Facts, Section, Table, Words
from meta_agent.reports.terminal.paint import lines, painted

_SHOWN = ("status", "kind", "domain", "worth", "origin", "licence", "path")


def table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Returns a row for each skill."""
    if not rows:
        return Text("there is no skill")
    cells = [
        (
            row["name"],
            ("avoid, " if row["kind"] == "negative" else "") + row["status"],
            row["domain"],
            row["worth"] or row["description"].partition(". ")[0],
        )
        for row in rows
    ]
    headings = ("skill", "standing", "domain", "worth, or what it is about")
    return painted([Table(headings, cells, whole=range(3), limit=0)])


def whole(row: Mapping[str, Any]) -> RenderableType:
    """Returns one skill: what is known of it, then its words as they are."""
    facts: list[tuple[str, Cell]] = [("skill", Words(row["name"], "strong"))]
    facts += [(name, str(row[name])) for name in _SHOWN if row[name]]
    facts += [("trial", trial["words"]) for trial in row["trials"]]
    facts += [("warning", warning) for warning in row["warnings"]]
    head = painted([Section([Facts(facts, limit=0)]), Section([Words(row["description"])])])
    return Group(head, Text(), lines(row["body"].splitlines()))
