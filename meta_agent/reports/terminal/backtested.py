"""A backtest, and how good forecasts were, as sections made from their JSON documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType

from meta_agent.reports._facts import prediction_facts
from meta_agent.reports._format import number, one_line, percent, points
from meta_agent.reports.sections import Cell, Facts, Section, Style, Table, Words, present
from meta_agent.reports.terminal.paint import painted

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
_DIAGNOSTIC: Final = ("diagnostic", "before", "after", "alarm", "on clean attempts alone")
_READINGS: Final[Mapping[str, Style]] = {"improves": "good", "harms": "bad"}
_ALARMS: Final = {(False, False): "", (True, True): "as before", (False, True): "new"}
_FALSE_ALARMS: Final = {None: "–", True: "false alarm", False: "silent"}


def backtested(document: Mapping[str, Any]) -> RenderableType:
    """The whole report, most telling first."""
    replay = document["replay"]
    diagnostics = [_diagnostic(row) for row in document["diagnostics"] or ()]
    sections = present(
        Section([Facts(list(_head(document)))]),
        Section([_sides(replay)]),
        Section([Facts(list(_ranks(replay)))]),
        Section([_probes(replay["probes"])]),
        Section([Facts(list(_ceiling(replay["ceiling"])) if replay["ceiling"] else [])]),
        Section([Table(_DIAGNOSTIC, diagnostics, cut=True)]),
        Section([Words(f"limit: {replay['limit']}", "dim")]),
    )
    return painted(sections)


def history(document: Mapping[str, Any]) -> RenderableType:
    """Every forecast beside what came of it, then the correlations."""
    rows = [_forecast(candidate) for candidate in document["candidates"]]
    table = Table(_FORECAST, rows, numbers=range(3, 7))
    facts = Facts(list(prediction_facts(document)))
    return painted(present(Section([table]), Section([facts])))


def _forecast(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    name = "/".join(candidate["candidate"].split("/")[-2:])
    figures = (candidate[key] for key in ("predicted", "realised", "replay"))
    texts = ("–" if figure is None else f"{figure:+.3f}" for figure in figures)
    clean = "–" if candidate["clean"] is None else points(candidate["clean"])
    return name, candidate["factor"], candidate["metric"], *texts, clean, candidate["split"]


def _head(document: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    replay = document["replay"]
    for role in ("version", "against"):
        yield role, f"{document[role]['name']} ({document[role]['commit'][:12]})"
    yield "changes", one_line(", ".join(document["changed"]) or "nothing", 200)
    yield "rollouts", f"{replay['rollouts']} in {replay['groups']} groups of two or more"
    if replay["skipped"]:
        yield "left out", f"{replay['skipped']} that ended in an error"
    yield "", Words(", ".join(document["rollouts"]), "dim")
    yield "reading", Words(replay["reading"], _READINGS.get(replay["reading"], ""))
    for reason in replay["reasons"]:
        yield "", reason
    if not {"reward", "filter", "diagnostics"} & set(document["factors"]):
        factors = ", ".join(document["factors"]) or "nothing"
        yield "note", f"{factors} changed: stored rollouts cannot tell"


def _sides(replay: Mapping[str, Any]) -> Table:
    sides = replay["before"], replay["after"]
    rows = [(title, *(percent(side[name]) for side in sides)) for name, title in _SIDES]
    rows.append(("alignment with clean success", *(number(side["alignment"]) for side in sides)))
    return Table(("on stored rollouts", "before", "after"), rows, numbers=(1, 2))


def _ranks(replay: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    revived = f"{replay['revived']}, in {replay['revived_mixed']} of them the truth differs"
    yield "groups revived", revived
    yield "groups killed", str(replay["killed"])
    tau, rho = (_or_dash(replay[name]) for name in ("kendall", "spearman"))
    changed = percent(replay["rank_changes"])
    yield "ranks within groups", f"{changed} of pairs changed, Kendall {tau}, Spearman {rho}"
    if (offset := replay["constant_offset"]) is not None:
        yield "constant offset", f"every total moves by {offset:+.3g}: no gradient comes of it"
    for name in replay["constant_components"]:
        yield "constant component", name


def _or_dash(value: Any) -> str:
    return "–" if value is None else number(value)


def _probes(probes: Sequence[Mapping[str, Any]]) -> Table:
    headings = ("bad attempts that beat a clean one when", "before", "after", "by most")
    rows: list[tuple[Cell, ...]] = []
    for probe in probes:
        counts = [f"{probe[side]} of {probe['tried']}" for side in ("beats_before", "beats_after")]
        worse = probe["beats_after"] > probe["beats_before"]
        words = Words(f"{probe['name']}: {probe['what']}", "warn" if worse else "")
        rows.append((words, *counts, probe["worst"] or ""))
    return Table(headings, rows, numbers=(1, 2))


def _ceiling(cut: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    limits = (("max_turns", "turns"), ("max_tokens", "tokens"))
    limit = (f"{cut[name]} {unit}" for name, unit in limits if cut[name] is not None)
    yield "ceiling", " and ".join(limit)
    yield "attempts cut", f"{cut['cut']} of {cut['attempts']}"
    yield "clean successes lost", f"at most {cut['clean_lost_at_most']} of {cut['clean']}"
    yield "turns saved", f"{cut['turns_saved']} of {cut['turns']}"
    yield "ended at a limit", f"{cut['ended_at_a_limit']} as it was"
    if cut["unknowable"]:
        yield "not known", Words(cut["unknowable"], "warn")
    yield "", Words(cut["limit"], "dim")


def _diagnostic(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    if row["failure"]:
        return row["diagnostic"], "", Words(f"fails: {row['failure']}", "bad"), "", ""
    name = f"{row['diagnostic']}.{row['value']}"
    values = (_or_dash(row[side]) for side in ("before", "after"))
    alarm = _ALARMS.get((row["alarm_before"], row["alarm_after"]), "gone")
    return name, *values, alarm, _FALSE_ALARMS[row["false_alarm"]]
