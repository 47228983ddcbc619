"""A comparison drawn: a table, a page with plots, and the progress of runs side by side.

Everything comes from the document that `compare --json` prints, so the three cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from meta_agent.core.display import Question, Reply
from meta_agent.core.protocols import Verdict
from meta_agent.reports._format import dollars, duration, percent, points, visible
from meta_agent.reports.pages._compare_page import MORE_STYLE, TEMPLATE
from meta_agent.reports.pages._svg import PALETTE_SIZE, Dot, Interval, dot_chart, interval_chart
from meta_agent.reports.pages.html import rendered, write_page
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal._tables import listed
from meta_agent.reports.terminal.display import Display, open_display

HEADINGS: Final = (
    "condition",
    "runs",
    "clean success",
    "IQM",
    "raw",
    "promoted",
    "invalid",
    "attempts",
)


def rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The cells of the table, one row a condition."""
    return [tuple(_cells(name, one)) for name, one in document["arms"].items()]


def table(document: Mapping[str, Any]) -> RenderableType:
    """The comparison for a terminal."""
    every = range(len(HEADINGS))
    cells = (map(visible, row) for row in rows(document))
    drawn = listed(HEADINGS, cells, right=every[1:], whole=every)
    parts = (contrasts(document), facts(document), explanations(document))
    told = [[Text(visible(line)) for line in part] for part in parts]
    return Group(drawn, *(line for lines in told if lines for line in (Text(), *lines)))


def contrasts(document: Mapping[str, Any]) -> Iterator[str]:
    """Conditions against each other, in sentences."""
    for name, one in document["arms"].items():
        for other, versus in one.get("versus", {}).items():
            seeds = len(versus["seeds"])
            yield (
                f"{name} against {other}: {_difference(versus['difference'])} points, better in "
                f"{versus['better_seeds']} of {seeds} seeds; P(better) "
                f"{_chance(versus['improvement'])}{_had_they_come(versus)}"
            )


def _had_they_come(versus: Mapping[str, Any]) -> str:
    """What a difference might have been without losses."""
    if not (lost := versus.get("lost_pairs")):
        return ""
    worst, best = map(points, versus["bounds"])
    return f"; {lost} pairs lost to machines, with them from {worst} to {best}"


def facts(document: Mapping[str, Any]) -> Iterator[str]:
    """What was declared, and what it took."""
    declared = document["declared"]
    settings = declared["settings"]
    conditions = [one for one in document["arms"].values() if one["runs"]]
    file = settings["tasks"]
    yield (
        f"budget of a run: {declared['budget']:,} {declared['budget_counts']}; seeds "
        f"{', '.join(map(str, declared['seeds']))}; "
        f"{f'tasks {Path(file).name}' if file else 'nano-' + settings['domain']}"
    )
    yield from _splits(document)
    tokens = sum(one["tokens"] for one in conditions)
    if tokens:
        amounts = [one["usd"] for one in conditions]
        usd = None if None in amounts else sum(amounts)
        yield f"models were asked for {tokens:,} tokens, {dollars(usd)}"
    yield f"all runs together took {duration(sum(one['wall_sec'] for one in conditions))}"
    yield from _losses(document)
    if document["unfinished"]:
        yield f"not finished: {', '.join(document['unfinished'])}; the same command goes on"


def _splits(document: Mapping[str, Any]) -> Iterator[str]:
    """Where conditions use a small set in different ways, which ones use it how."""
    splits: Mapping[str, str] = document.get("splits") or {}
    ways = dict.fromkeys(splits.values())
    if len(ways) < 2:
        return
    for way in ways:
        yield f"{', '.join(one for one in splits if splits[one] == way)}: {way}"


def _losses(document: Mapping[str, Any]) -> Iterator[str]:
    """Vault attempts without an outcome; documents from before they were counted say nothing."""
    for name, one in document["arms"].items():
        if one.get("lost"):
            low, high = map(percent, one["bounds"])
            yield (
                f"{name}: {one['lost']} of {one['planned']} vault attempts lost to machines, in no "
                f"share; with them clean success would be from {low} to {high}"
            )
    if void := document.get("void"):
        yield (
            f"void, too much was lost to machines: {', '.join(void)}; remove such a folder and the "
            "same command makes the run again"
        )


def explanations(document: Mapping[str, Any]) -> Iterator[str]:
    """How to read the table."""
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
    few = min((one["runs"] for one in document["arms"].values() if one["runs"]), default=0)
    if 0 < few < 5:
        yield f"intervals are too narrow with {few} of the 5 seeds they need: read run by run"


def _cells(name: str, one: Mapping[str, Any]) -> Iterator[str]:
    yield name
    yield str(one["runs"])
    if not one["runs"]:
        yield from ("–",) * (len(HEADINGS) - 2)
        return
    yield _share(one["mean"])
    yield _share(one["iqm"])
    yield percent(one["success"])
    yield str(one["promotions"])
    yield str(one["invalid_promotions"])
    told = one.get("trained_on")
    training = "" if told is None else f" ({told:,.0f})"
    yield f"{one['spent']:,.0f}{training}"


def _share(one: Mapping[str, float]) -> str:
    return f"{100 * one['value']:.1f} % [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"


def _difference(one: Mapping[str, float]) -> str:
    return f"{points(one['value'])} [{points(one['low'])}, {points(one['high'])}]"


def _chance(one: Mapping[str, float]) -> str:
    return f"{one['value']:.2f} [{one['low']:.2f}, {one['high']:.2f}]"


# --- the page ------------------------------------------------------------------------------------


def render_html(document: Mapping[str, Any]) -> str:
    """One self-contained page: table, plots, every run."""
    return rendered(
        TEMPLATE,
        more_style=Markup(MORE_STYLE),
        headings=HEADINGS,
        rows=rows(document),
        contrasts=list(contrasts(document)),
        facts=list(facts(document)),
        explanations=list(explanations(document)),
        clean=_clean_chart(document),
        differences=_difference_chart(document),
        by_seed=_seed_chart(document),
        runs=sorted(document["runs"], key=lambda run: (run["seed"], run["arm"])),
        settings=document["declared"]["settings"],
        reference=document["reference"],
    )


def write_html(document: Mapping[str, Any], path: Path) -> None:
    """Writes the page, whole or not at all."""
    write_page(render_html(document), path)


def _clean_chart(document: Mapping[str, Any]) -> Markup | None:
    found = {name: one["mean"] for name, one in document["arms"].items() if one["runs"]}
    drawn = [_interval(document, name, one, _share(one)) for name, one in found.items()]
    title = "Clean success on the vault"
    return interval_chart(title, drawn, unit=" %", zero=False) if drawn else None


def _difference_chart(document: Mapping[str, Any]) -> Markup | None:
    reference = document["reference"]
    against = {name: one.get("versus", {}) for name, one in document["arms"].items()}
    found = {
        name: one[reference]["difference"] for name, one in against.items() if reference in one
    }
    drawn = [_interval(document, name, one, _difference(one)) for name, one in found.items()]
    title = f"Clean success minus that of {document['reference']}, points"
    return interval_chart(title, drawn, unit="", zero=True) if drawn else None


def _seed_chart(document: Mapping[str, Any]) -> Markup | None:
    """Every run as a dot: what a mean of few runs hides."""
    runs = sorted(document["runs"], key=lambda run: (run["seed"], run["arm"]))
    dots = [
        Dot(
            f"seed {run['seed']}",
            100 * run["clean_success"],
            _colour(document, run["arm"]),
            visible(run["arm"]),
        )
        for run in runs
    ]
    return dot_chart("Clean success of every run, by seed", dots, unit=" %") if dots else None


def _colour(document: Mapping[str, Any], condition: str) -> int:
    """A condition has one colour on the whole page."""
    return list(document["arms"]).index(condition) % PALETTE_SIZE


def _interval(
    document: Mapping[str, Any], name: str, one: Mapping[str, float], text: str
) -> Interval:
    value, low, high = (100 * one[end] for end in ("value", "low", "high"))
    return Interval(visible(name), value, low, high, f"c{_colour(document, name)}", text)


# --- progress ------------------------------------------------------------------------------------


def beside(display: Display | None = None) -> Callable[[str], Display]:
    """Displays for runs that go on side by side: lines of one log, each with its run's name."""
    shared = display or open_display(live=False)
    return lambda name: _Named(shared, name)


class _Named:
    """A display whose lines say which run they are of. Training curves stay in the ledger."""

    def __init__(self, inner: Display, name: str) -> None:
        self._inner = inner
        self._name = name

    def begin(self, headline: Sequence[str]) -> None:
        self._inner.note(f"{self._name}: {headline[0]}")

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        if not done:
            self._inner.phase(name, f"{self._name}: {detail}")

    def note(self, text: str) -> None:
        self._inner.note(f"{self._name}: {text}")

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        """Not shown."""

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        short = candidate.partition("/")[2] or candidate
        self._inner.verdict(f"{self._name} {short}", factor, verdict, statement)

    def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
        return None

    def done(self, state: RunState) -> None:
        self._inner.done(state)

    def close(self) -> None:
        """The log is shared."""
