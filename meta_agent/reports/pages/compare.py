"""A comparison as sections: the table, sentences, plots, and every run.

Everything comes from the document that `compare --json` prints, so the three cannot disagree.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType

from meta_agent.reports._format import dollars, duration, percent, points, share_text, value_text
from meta_agent.reports.pages.html import rendered
from meta_agent.reports.sections import (
    PALETTE_SIZE,
    Facts,
    Interval,
    Intervals,
    Page,
    Section,
    Table,
    Words,
    present,
)
from meta_agent.reports.terminal.paint import painted

Document = Mapping[str, Any]
HEADINGS: Final = (
    *("condition", "runs", "clean success", "IQM"),
    *("raw", "promoted", "invalid", "attempts"),
)
_SEARCH_HEADINGS: Final = (
    *("condition", "ideas", "never ran", "failed", "no room", "INVALID"),
    *("predicted right", "risks came true", "raw winner leaks", "points per 1,000"),
    *("time", "money"),
)
_RUN_HEADINGS: Final = (
    *("seed", "condition", "clean", "raw", "promoted"),
    *("invalid", "handed over", "steps", "attempts"),
)


def table(document: Document) -> RenderableType:
    """Returns the comparison of ways to search (conditions) as tables and text for a terminal."""
    conditions, contrast, facts, reading = _sections(document)
    return painted(present(conditions, contrast, facts, reading))


def render_html(document: Document) -> str:
    """Returns the comparison as one self-contained page: table, plots, every run."""
    conditions, contrast, facts, reading = _sections(document)
    lines = [line.text for line in facts.blocks if isinstance(line, Words)]
    chart = Section([_clean_chart(document)], "Clean success of the final versions")
    gaps = Section([_difference_chart(document), *contrast.blocks], contrast.title)
    settings = Facts(
        [(name, value_text(value)) for name, value in document["declared"]["settings"].items()]
    )
    sections = present(
        chart,
        gaps,
        Section([*conditions.blocks, *reading.blocks], "The conditions"),
        Section([_searches(document)], "The searches"),
        Section([_seed_chart(document), _runs(document)], "Every run"),
        Section([settings], "Settings"),
    )
    page = Page("conditions at equal budget", "Ways to search at equal budget", lines, sections)
    return rendered(page)


def render_csv(document: Document) -> str:
    """Returns the comparison as CSV text, a row for each run."""
    text = StringIO()
    rows = [_flat(run) for run in _in_order(document)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run as cells: nested counts get a column each, lists are joined."""
    cells: dict[str, Any] = {}
    for name, value in run.items():
        if isinstance(value, Mapping):
            cells |= {f"{name}.{key}": cell for key, cell in _flat(value).items()}
        else:
            cells[name] = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return cells


def _sections(document: Document) -> tuple[Section, Section, Section, Section]:
    """Returns the table, the contrasts, what was declared, and how to read it all."""
    every = range(len(HEADINGS))
    conditions = Table(HEADINGS, rows(document), numbers=every[1:], whole=(0,))
    title = f"Against {document['reference']}, seed by seed"
    return (
        Section([conditions, *([_searches(document)] if _searched(document) else [])]),
        Section(_words(_contrasts(document)), title),
        Section(_words(_declared(document))),
        Section(_words(_explanations(document), dim=True)),
    )


def _words(lines: Iterable[str], *, dim: bool = False) -> list[Words]:
    return [Words(line, "dim" if dim else "") for line in lines]


# --- what the searches did ----------------------------------------------------------------------


def _searched(document: Document) -> list[tuple[str, Document]]:
    return [(name, arm["search"]) for name, arm in document["arms"].items() if arm.get("search")]


def _searches(document: Document) -> Table:
    """Returns what each condition did with its ideas, over all of its runs, and what it cost."""
    rows = []
    for name, facts in _searched(document):
        arm, rate = document["arms"][name], facts["points_per_thousand"]
        at_risk = f"{facts['at_risk_lost']} of {facts['at_risk']}" if facts["at_risk"] else "–"
        rows.append(
            (
                name,
                ", ".join(f"{count} {kind}" for kind, count in facts["kinds"].items()) or "–",
                str(facts["refused"] + facts["never_ran"]),
                str(facts["failed"]),
                str(facts["untried"]),
                str(facts["invalid"]),
                f"{facts['predictions_right']} of {facts['predictions']}",
                at_risk,
                f"{facts['raw_winner_leaks']} of {arm['runs']}",
                "–" if rate is None else f"{rate:+.2f}",
                duration(arm["wall_sec"]),
                dollars(arm["usd"]),
            )
        )
    return Table(_SEARCH_HEADINGS, rows, whole=(0, 1))


# --- the table and the sentences ----------------------------------------------------------------


def rows(document: Document) -> list[tuple[str, ...]]:
    """Returns a row for each condition: its name, then its figures under `HEADINGS` as text."""
    return [(name, *_cells(result)) for name, result in document["arms"].items()]


def _cells(result: Document) -> Sequence[str]:
    if not result["runs"]:
        return ("0", *["–"] * (len(HEADINGS) - 2))
    trained = result.get("trained_on")
    training = "" if trained is None else f" ({trained:,.0f})"
    return (
        str(result["runs"]),
        _share(result["mean"]),
        _share(result["iqm"]),
        percent(result["success"]),
        str(result["promotions"]),
        str(result["invalid_promotions"]),
        f"{result['spent']:,.0f}{training}",
    )


def _contrasts(document: Document) -> Iterator[str]:
    for name, result in document["arms"].items():
        for other, versus in result.get("versus", {}).items():
            low, high = versus["improvement"]["low"], versus["improvement"]["high"]
            lost = ""
            if count := versus.get("lost_pairs"):
                worst, best = map(points, versus["bounds"])
                lost = f"; {count} pairs lost to machines, with them from {worst} to {best}"
            yield (
                f"{name} against {other}: {_difference(versus['difference'])} points, better in "
                f"{versus['better_seeds']} of {len(versus['seeds'])} seeds; P(better) "
                f"{versus['improvement']['value']:.2f} [{low:.2f}, {high:.2f}]{lost}"
            )


def _declared(document: Document) -> Iterator[str]:
    """Yields what was declared, and what it took."""
    declared, settings = document["declared"], document["declared"]["settings"]
    results = [result for result in document["arms"].values() if result["runs"]]
    tasks = settings["tasks"]
    yield (
        f"budget of a run: {declared['budget']:,} {declared['budget_counts']}; seeds "
        f"{', '.join(map(str, declared['seeds']))}; "
        f"{f'tasks {Path(tasks).name}' if tasks else 'nano-' + settings['domain']}"
    )
    splits: Mapping[str, str] = document.get("splits") or {}
    uses = dict.fromkeys(splits.values())
    for use in uses if len(uses) > 1 else ():
        yield f"{', '.join(name for name in splits if splits[name] == use)}: {use}"
    if tokens := sum(result["tokens"] for result in results):
        amounts = [result["usd"] for result in results]
        usd = None if None in amounts else sum(amounts)
        yield f"models were asked for {tokens:,} tokens, {dollars(usd)}"
    yield f"all runs together took {duration(sum(result['wall_sec'] for result in results))}"
    yield from _losses(document)
    if document["unfinished"]:
        yield f"not finished: {', '.join(document['unfinished'])}; the same command goes on"


def _losses(document: Document) -> Iterator[str]:
    """Yields the lost vault attempts. Older documents did not count them."""
    for name, result in document["arms"].items():
        if result.get("lost"):
            low, high = map(percent, result["bounds"])
            yield (
                f"{name}: {result['lost']} of {result['planned']} vault attempts lost to machines, "
                f"in no share; with them clean success would be from {low} to {high}"
            )
    if void := document.get("void"):
        yield (
            f"void, too much was lost to machines: {', '.join(void)}; remove such a folder and the "
            "same command makes the run again"
        )


def _explanations(document: Document) -> Iterator[str]:
    yield (
        "clean success: vault tasks solved and not flagged, mean over runs with 95 % intervals; "
        "IQM: its middle half; the weights are those that each run kept, not fresh trainings"
    )
    yield (
        "points are paired by seed and task; P(better): chance that a run of the one beats a run "
        "of the other"
    )
    yield "attempts: all but those at vault tasks, in brackets those that training made"
    yield "raw: solved, flagged or not; invalid: promotions that all detectors call so, asked now"
    sizes = [result["runs"] for result in document["arms"].values() if result["runs"]]
    if 0 < min(sizes, default=0) < 5:
        few = min(sizes)
        yield f"intervals are too narrow with {few} of the 5 seeds they need: read run by run"


def _share(figure: Mapping[str, float]) -> str:
    return share_text(figure["value"], figure["low"], figure["high"])


def _difference(figure: Mapping[str, float]) -> str:
    return f"{points(figure['value'])} [{points(figure['low'])}, {points(figure['high'])}]"


# --- figures and every run ----------------------------------------------------------------------


def _clean_chart(document: Document) -> Intervals:
    means = {name: arm["mean"] for name, arm in document["arms"].items() if arm["runs"]}
    drawn = [_interval(document, name, mean, _share(mean)) for name, mean in means.items()]
    return Intervals("Clean success on the vault", drawn)


def _difference_chart(document: Document) -> Intervals:
    reference = document["reference"]
    drawn = []
    for name, result in document["arms"].items():
        if versus := result.get("versus", {}).get(reference):
            figure = versus["difference"]
            drawn.append(_interval(document, name, figure, _difference(figure)))
    title = f"Clean success minus that of {reference}, points"
    return Intervals(title, drawn, unit="", zero=True)


def _seed_chart(document: Document) -> Intervals:
    """Returns every run as a dot, which shows what a mean of few runs hides."""
    dots = []
    for run in _in_order(document):
        clean, kind = 100 * run["clean_success"], f"c{_colour(document, run['arm'])}"
        label = f"seed {run['seed']} {run['arm']}"
        dots.append(Interval(label, clean, clean, clean, kind, f"{clean:.1f} %"))
    return Intervals("Clean success of every run, by seed", dots)


def _runs(document: Document) -> Table:
    rows = []
    for run in _in_order(document):
        lost = f" ({run['lost']} lost)" if run.get("lost") else ""
        final = "".join(f" final: {', '.join(names)}" for names in [run["final_findings"]] if names)
        rows.append(
            (
                str(run["seed"]),
                run["arm"],
                f"{percent(run['clean_success'])}{lost}",
                percent(run["success"]),
                ", ".join(run["promoted"]),
                f"{', '.join(run['invalid'])}{final}",
                run.get("standing") or "",
                str(run["policy_steps"]),
                f"{run['spent']:,}",
            )
        )
    return Table(_RUN_HEADINGS, rows, whole=(1, 2, 3, 7, 8))


def _in_order(document: Document) -> list[Mapping[str, Any]]:
    return sorted(document["runs"], key=lambda run: (run["seed"], run["arm"]))


def _colour(document: Document, condition: str) -> int:
    """Returns the colour of a condition, the same on the whole page."""
    return list(document["arms"]).index(condition) % PALETTE_SIZE


def _interval(document: Document, name: str, figure: Mapping[str, float], text: str) -> Interval:
    value, low, high = (100 * figure[end] for end in ("value", "low", "high"))
    return Interval(name, value, low, high, f"c{_colour(document, name)}", text)
