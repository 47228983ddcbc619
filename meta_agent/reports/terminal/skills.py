"""Skills on the terminal: a library as a table, one whole, and what a search found and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from meta_agent.reports._format import visible
from meta_agent.reports.terminal._tables import facts_table, listed
from meta_agent.reports.terminal.text import lines

_SHOWN = ("status", "kind", "domain", "worth", "origin", "licence", "path")


def table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A row for each skill."""
    if not rows:
        return Text("there is no skill")
    made = listed(("skill", "standing", "domain", "worth, or what it is about"), whole=range(3))
    for row in rows:
        kind = "avoid, " if row["kind"] == "negative" else ""
        told = row["worth"] or row["description"].partition(". ")[0]
        cells = (row["name"], kind + row["status"], row["domain"], told)
        made.add_row(*(Text(visible(cell)) for cell in cells))
    return made


def whole(row: Mapping[str, Any]) -> RenderableType:
    """One skill: what is known of it, then its words as they are."""
    head = facts_table()
    head.add_row("skill", Text(visible(row["name"]), style="bold"))
    for name in _SHOWN:
        if row[name]:
            head.add_row(name, Text(visible(row[name])))
    for one in row["trials"]:
        head.add_row("trial", Text(visible(one["words"])))
    for one in row["warnings"]:
        head.add_row("warning", Text(visible(one)))
    body = lines(row["body"].splitlines())
    return Group(head, Text(), Text(visible(row["description"])), Text(), body)


def found(rows: Sequence[Mapping[str, Any]], unseen: Sequence[str], known: int) -> RenderableType:
    """What was found, and of which skills the sign could not be looked for: no all clear."""
    told = f"of {known} skills {len(unseen)} could not look at these rollouts whole, so they clear "
    text = [f"{told}nothing: {', '.join(unseen)}", ""] if unseen else []
    if not rows:
        return lines([*text, "no skill fits"])
    for row in rows:
        text.append(f"{row['name']}  ({row['status']})")
        text += [f"  shows  {name} {value:.3g}" for name, value in row["shows"].items()]
        text += [f"  not looked at  {why}" for why in row["not_looked_at"]]
        text.append(f"  {row['description']}")
    return lines([*text, "", f"meta-agent skills show {rows[0]['name']}"])
