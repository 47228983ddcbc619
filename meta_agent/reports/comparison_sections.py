"""A comparison as sections: its conditions, their differences, what was declared, and every run.

Everything comes from the document that `compare --json` prints. Does not cover: which of two runs
is better. Paired seeds can say that (`compare --conditions ... --seeds N`), one run a side cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from meta_agent.reports._format import dollars, duration, percent, points, share_text, value_text
from meta_agent.reports.sections import (
    Facts,
    Fold,
    Folds,
    Interval,
    Intervals,
    Page,
    Section,
    Table,
    Words,
    present,
)

Document = Mapping[str, Any]
_HEADINGS: Final = (
    *("condition", "runs", "clean success", "IQM"),
    *("raw", "promoted", "invalid", "attempts"),
)
_RUN_HEADINGS: Final = (
    *("seed", "condition", "clean", "raw", "promoted"),
    *("invalid", "handed over", "steps", "attempts"),
)


def comparison_page(document: Document) -> Page:
    """Returns the comparison of search strategies (conditions) as a page, also for a terminal."""
    arms, reference = document["arms"], document["reference"]
    rows = [(name, *_cells(result)) for name, result in arms.items()]
    every = range(len(_HEADINGS))
    means = {name: result["mean"] for name, result in arms.items() if result["runs"]}
    gains = {
        name: result["versus"][reference]["difference"]
        for name, result in arms.items()
        if reference in result.get("versus", {})
    }
    shares = Intervals("Clean success on the vault", _drawn(means, _share))
    title = f"Clean success minus that of {reference}, points"
    differences = Intervals(title, _drawn(gains, _difference), unit="", zero=True)
    settings = document["declared"]["settings"]
    facts = Facts([(name, value_text(value)) for name, value in settings.items()])
    sections = present(
        Section(
            [
                shares,
                Table(_HEADINGS, rows, numbers=every[1:], whole=(0,)),
                *(Words(line, "dim") for line in _explanations(document)),
            ],
            "The conditions",
        ),
        Section(
            [differences, *map(Words, _contrasts(document))], f"Against {reference}, seed by seed"
        ),
        Section([_searches(document)], "The searches"),
        Section([_runs(document)], "Every run"),
        Section([Folds([Fold(("Settings",), [facts])])]),
    )
    headline = "Ways to search at equal budget"
    return Page("conditions at equal budget", headline, list(_declared(document)), sections)


def files_sections(document: Document) -> list[Section]:
    """Returns the document of `compare A B --by task` as a table and sentences."""
    rows = [
        (
            Path(file["path"]).name,
            *(str(file[name]) for name in ("tasks", "attempts", "lost")),
            percent(file["score"]),
        )
        for file in document["files"]
    ]
    lines = [
        f"the second against the first: {_difference(document['difference'])} points on "
        f"{document['tasks']} common tasks, better at {document['better_tasks']}, worse at "
        f"{document['worse_tasks']}",
        "the smallest difference that these pairs show with 80 % power: "
        f"{100 * document['smallest_shown']:.1f} points",
        f"{document['only_in_one']} tasks are in one file only; attempts without a score are left "
        "out",
    ]
    heading = ("file", "tasks", "attempts", "lost", "mean score")
    files = Section([Table(heading, rows, numbers=range(1, 5), whole=(0,))])
    return [files, Section(list(map(Words, lines)))]


def _cells(result: Document) -> Sequence[str]:
    if not result["runs"]:
        return ("0", *["–"] * (len(_HEADINGS) - 2))
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


def _searches(document: Document) -> Table:
    """Returns what each condition did with its ideas, and what all of its runs cost."""
    arms = {name: arm for name, arm in document["arms"].items() if arm.get("search")}
    fields = dict.fromkeys(field for arm in arms.values() for field in arm["search"])
    rows = [
        (field.replace("_", " "), *(value_text(arm["search"].get(field)) for arm in arms.values()))
        for field in fields
    ]
    costs = [("time", *(duration(arm["wall_sec"]) for arm in arms.values()))]
    costs.append(("money", *(dollars(arm["usd"]) for arm in arms.values())))
    return Table(("over all runs", *arms), [*rows, *costs] if arms else [])


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
    """Yields what was declared, what it took, and which vault attempts were lost."""
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
    for name, result in document["arms"].items():
        if result.get("lost"):  # older documents did not count them
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
    if document["unfinished"]:
        yield f"not finished: {', '.join(document['unfinished'])}; the same command continues"


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


def _runs(document: Document) -> Table:
    rows = []
    for run in sorted(document["runs"], key=lambda run: (run["seed"], run["arm"])):
        lost = f" ({run['lost']} lost)" if run.get("lost") else ""
        final = f" final: {', '.join(run['final_findings'])}" if run["final_findings"] else ""
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


def _drawn(figures: Mapping[str, Document], text: Callable[[Document], str]) -> list[Interval]:
    """Returns the rows of an interval chart, in percent or points."""
    rows = []
    for name, figure in figures.items():
        middle, low, high = (100 * figure[end] for end in ("value", "low", "high"))
        rows.append(Interval(name, middle, low, high, "version", text(figure)))
    return rows


def _share(figure: Document) -> str:
    return share_text(figure["value"], figure["low"], figure["high"])


def _difference(figure: Document) -> str:
    return f"{points(figure['value'])} [{points(figure['low'])}, {points(figure['high'])}]"
