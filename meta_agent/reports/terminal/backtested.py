"""A backtest, and how good forecasts were, drawn for the terminal from their JSON documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meta_agent.reports._format import number, one_line, percent, points, visible
from meta_agent.reports._predictions import prediction_facts
from meta_agent.reports.terminal._tables import facts_table, listed

_SIDES: Final = (
    ("dead_group_ratio", "dead groups"),
    ("ordering_violations", "clean ranked below an unclean one (pairs)"),
    ("ordering_violations_by_flagged", "  of them, below a flagged solution"),
    ("ordering_ties", "ties of clean and unclean (pairs)"),
    ("good_outranked", "good attempts with an unclean one above"),
    ("good_penalised", "good attempts that a component fines"),
    ("mixed_groups_dropped", "groups with both kinds that the filter drops"),
    ("weight_on_live_groups", "weight on groups that teach"),
)
_FORECAST: Final = (
    *("candidate", "factor", "metric"),
    *("predicted", "realised", "replay", "clean success", "on"),
)
_STYLES: Final = {"improves": "green", "harms": "bold red"}


def backtested(document: Mapping[str, Any]) -> RenderableType:
    """The whole report, most telling first."""
    seen = document["replay"]
    parts: list[RenderableType] = [_head(document), Text(), _sides(seen), Text(), _ranks(seen)]
    if seen["probes"]:
        parts += [Text(), _probes(seen["probes"])]
    if seen["ceiling"]:
        parts += [Text(), _ceiling(seen["ceiling"])]
    if document["diagnostics"] is not None:
        parts += [Text(), _diagnostics(document["diagnostics"])]
    return Group(*parts, Text(), Text(f"limit: {visible(seen['limit'])}", style="dim"))


def history(document: Mapping[str, Any]) -> RenderableType:
    """Every forecast beside what came of it, then the correlations."""
    table = listed(_FORECAST, map(_forecast, document["candidates"]), right=range(3, 7))
    facts = facts_table(prediction_facts(document))
    return Group(table, Text(), facts) if document["candidates"] else facts


def _forecast(one: Mapping[str, Any]) -> Iterator[str]:
    yield "/".join(visible(one["candidate"]).split("/")[-2:])
    yield visible(one["factor"])
    yield visible(one["metric"])
    for name in ("predicted", "realised", "replay"):
        yield "–" if one[name] is None else f"{one[name]:+.3f}"
    yield "–" if one["clean"] is None else points(one["clean"])
    yield visible(one["split"])


def _head(document: Mapping[str, Any]) -> Table:
    seen, table = document["replay"], facts_table()
    for role in ("version", "against"):
        named = document[role]
        table.add_row(role, Text(f"{visible(named['name'])} ({visible(named['commit'])[:12]})"))
    table.add_row("changes", Text(one_line(", ".join(document["changed"]) or "nothing", 200)))
    table.add_row("rollouts", Text(f"{seen['rollouts']} in {seen['groups']} groups of two or more"))
    if seen["skipped"]:
        table.add_row("left out", Text(f"{seen['skipped']} that ended in an error"))
    table.add_row("", Text(visible(", ".join(document["rollouts"])), style="dim"))
    table.add_row("reading", Text(visible(seen["reading"]), style=_STYLES.get(seen["reading"], "")))
    for reason in seen["reasons"]:
        table.add_row("", Text(visible(reason)))
    if not {"reward", "filter", "diagnostics"} & set(document["factors"]):
        told = ", ".join(document["factors"]) or "nothing"
        table.add_row("note", Text(f"{visible(told)} changed: stored rollouts cannot tell"))
    return table


def _sides(seen: Mapping[str, Any]) -> Table:
    before, after = seen["before"], seen["after"]
    rows: list[tuple[str, ...]] = [
        (title, percent(before[name]), percent(after[name])) for name, title in _SIDES
    ]
    aligned = (number(side["alignment"]) for side in (before, after))
    rows.append(("alignment with clean success", *aligned))
    return listed(("on stored rollouts", "before", "after"), rows, right=(1, 2))


def _ranks(seen: Mapping[str, Any]) -> Table:
    table = facts_table()
    revived = f"{seen['revived']}, in {seen['revived_mixed']} of them the truth differs"
    table.add_row("groups revived", Text(revived))
    table.add_row("groups killed", Text(str(seen["killed"])))
    table.add_row("ranks within groups", Text(_rank_text(seen)))
    if seen["constant_offset"] is not None:
        told = f"every total moves by {seen['constant_offset']:+.3g}: no gradient comes of it"
        table.add_row("constant offset", Text(told))
    for name in seen["constant_components"]:
        table.add_row("constant component", Text(visible(name)))
    return table


def _rank_text(seen: Mapping[str, Any]) -> str:
    tau, rho = (number(seen[name]) if seen[name] is not None else "–" for name in _COEFFICIENTS)
    return f"{percent(seen['rank_changes'])} of pairs changed, Kendall {tau}, Spearman {rho}"


_COEFFICIENTS: Final = ("kendall", "spearman")


def _probes(probes: Sequence[Mapping[str, Any]]) -> Table:
    headings = ("bad attempts that beat a clean one when", "before", "after", "by most")
    table = listed(headings, right=(1, 2))
    for one in probes:
        what = f"{visible(one['name'])}: {visible(one['what'])}"
        counts = (f"{one[side]} of {one['tried']}" for side in ("beats_before", "beats_after"))
        style = "yellow" if one["beats_after"] > one["beats_before"] else ""
        table.add_row(Text(what, style=style), *counts, Text(visible(one["worst"] or "")))
    return table


def _ceiling(cut: Mapping[str, Any]) -> Table:
    table, wanted = facts_table(), []
    for name, unit in (("max_turns", "turns"), ("max_tokens", "tokens")):
        if cut[name] is not None:
            wanted.append(f"{cut[name]} {unit}")
    table.add_row("ceiling", Text(" and ".join(wanted)))
    table.add_row("attempts cut", Text(f"{cut['cut']} of {cut['attempts']}"))
    lost = f"at most {cut['clean_lost_at_most']} of {cut['clean']}"
    table.add_row("clean successes lost", Text(lost))
    table.add_row("turns saved", Text(f"{cut['turns_saved']} of {cut['turns']}"))
    table.add_row("ended at a limit", Text(f"{cut['ended_at_a_limit']} as it was"))
    if cut["unknowable"]:
        table.add_row("not known", Text(visible(cut["unknowable"]), style="yellow"))
    table.add_row("", Text(visible(cut["limit"]), style="dim"))
    return table


def _diagnostics(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = listed(("diagnostic", "before", "after", "alarm", "on clean attempts alone"), cut=True)
    for row in rows:
        if row["failure"]:
            failed = Text(f"fails: {one_line(row['failure'], 160)}", style="red")
            table.add_row(Text(visible(row["diagnostic"])), "", failed, "", "")
            continue
        values = ("–" if row[side] is None else number(row[side]) for side in ("before", "after"))
        false = {None: "–", True: "false alarm", False: "silent"}[row["false_alarm"]]
        name = Text(visible(f"{row['diagnostic']}.{row['value']}"))
        table.add_row(name, *values, _alarm(row), false)
    return table


def _alarm(row: Mapping[str, Any]) -> str:
    was, now = row["alarm_before"], row["alarm_after"]
    return {(False, False): "", (True, True): "as before", (False, True): "new"}.get(
        (was, now), "gone"
    )
