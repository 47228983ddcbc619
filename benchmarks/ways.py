"""Every way to search on one bench: three nano suites and twelve unseen faults, at equal attempts.

Declared before the first run, in `DESIGN` and in the `comparison.json` of every part:

* the suites swe, math and code, five seeds each; the seed decides which faults are planted;
* the twelve faults of `unseen_faults/`, each planted alone in its suite's competent harness, one
  run for each strategy; the fault is the unit there;
* the rules propose, so only the search differs; `human` is the competent harness, trained for the
  whole budget;
* 19,200 attempts a run and two steps a training: room for five to eight single ideas and a proof.

A piece is one seed of a suite, or one fault: all strategies on it. Pieces resume where they ended,
and any of them may run on another machine. The size is chosen so that all of them take at most four
hours on two cores: 246 runs of about 100 seconds of one core. The results of all finished runs are
written after each piece.

    python benchmarks/ways.py --out DIR [--piece swe/1 ...] [--list] [--tiny]

`--tiny` tries the same with two seeds, two faults and one training step; its figures say nothing.

Not covered: language models as proposers; a policy whose trainings cost hours; whether 512 vault
tasks of a laboratory speak for other tasks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from unseen_faults import unseen_faults

from meta_agent.composition.evolve import evolve
from meta_agent.core.config import RunConfig
from meta_agent.core.gate.numbers.results import interval
from meta_agent.core.protocols import JSON
from meta_agent.domains.nano.sources import SUITES, sources
from meta_agent.reports.comparison_sections import comparison_page
from meta_agent.reports.pages.html import rendered, write_page
from meta_agent.reports.terminal.display import beside
from meta_agent.studies.conditions import HUMAN, Comparison, carry_out, declare
from meta_agent.studies.conditions_results import report, results_of

WAYS: Final = (
    *("full", "score-only", "frontier", "archive", "pareto", "tree", "specialists", "bilevel"),
)
SEEDS: Final = 5
FAULTS: Final = 12
DESIGN: Final = RunConfig(
    generations=20, candidates=6, train_steps=2, budget=19200, sandbox="process", seed=1
)
LABELS, PANEL, GAP, TOP, LINE, FOOT = 90, 250, 30, 40, 22, 24  # pixels of the figure
STYLE: Final = """
text { font: 12px sans-serif; fill: #57606a; } .name { font-weight: bold; }
.tick { text-anchor: middle; fill: #8b949e; } .grid { stroke: #8b949e; stroke-width: .4; }
path { stroke-width: 3; fill: none; } .way { stroke: #57606a; fill: #57606a; }
.own { stroke: #1a7f37; fill: #1a7f37; }
"""
TINY: Final = {"profile": "tiny", "train_steps": 1, "budget": 960, "generations": 2}


class Part(NamedTuple):
    """One comparison: a suite with its seeds, or one fault."""

    name: str
    comparison: Comparison

    def pieces(self) -> list[str]:
        """Returns the names of its pieces: one for each seed."""
        return [f"{self.name}/{seed}" for seed in self.comparison.seeds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--piece", action="append", default=[], help="only these; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the pieces and run nothing")
    parser.add_argument("--tiny", action="store_true", help="a trial of the bench itself")
    args = parser.parse_args()
    out = args.out.absolute()
    parts = list(declared(out, tiny=args.tiny))
    pieces = [piece for part in parts for piece in part.pieces()]
    if unknown := set(args.piece) - set(pieces):
        parser.error(f"no piece {', '.join(sorted(unknown))}; --list names them all")
    if args.list:
        print("\n".join(pieces))
        return
    for part in parts:
        for piece in part.pieces():
            if not args.piece or piece in args.piece:
                run_piece(part, piece)
                write(out, parts)


def declared(out: Path, *, tiny: bool) -> Iterator[Part]:
    """Yields every part, after its declaration was written or found unchanged."""
    design = DESIGN.model_copy(update=TINY if tiny else {})
    for suite in SUITES[: 1 if tiny else None]:
        people = _written(out / "harness" / suite / "competent", sources(suite, "competent"))
        ways = (*WAYS, "static", f"{HUMAN}{people}")
        config = design.model_copy(update={"domain": suite})
        yield Part(suite, declare(config, ways, 2 if tiny else SEEDS, out / suite))
    for fault in unseen_faults()[: 2 if tiny else FAULTS]:
        files = fault.apply(sources(fault.suite, "competent"))
        place = _written(out / "harness" / fault.suite / fault.name, files)
        config = design.model_copy(update={"domain": fault.suite, "harness": str(place)})
        name = f"fault-{fault.suite}-{fault.name}"
        yield Part(name, declare(config, WAYS, 1, out / name))


def _written(place: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    return place


def run_piece(part: Part, piece: str) -> None:
    """Makes the runs of one seed. A run that stopped is named, and the next call takes it up."""
    seed = int(piece.rpartition("/")[2])
    stopped = carry_out(replace(part.comparison, seeds=(seed,)), evolve, beside())
    for name, error in stopped.items():
        print(f"{part.name}: {name} stopped: {error}", flush=True)


def write(out: Path, parts: list[Part]) -> None:
    """Writes the table of all finished runs, and for each suite its page and its CSV."""
    documents = {part.name: report(part.comparison, results_of(part.comparison)) for part in parts}
    for name in (part.name for part in parts if len(part.comparison.seeds) > 1):
        if any(arm["runs"] for arm in documents[name]["arms"].values()):
            write_page(rendered(comparison_page(documents[name])), out / f"{name}.html")
    (out / "ways.json").write_text(json.dumps(documents, indent=1))
    (out / "ways.md").write_text("\n".join(table(documents)) + "\n")
    (out / "ways.svg").write_text(figure(documents))


def table(documents: Mapping[str, JSON]) -> Iterator[str]:
    """Yields a Markdown table: clean success on the vault in per cent, with 95 % intervals."""
    suites = [name for name in documents if not name.startswith("fault-")]
    faults = [document for name, document in documents.items() if name.startswith("fault-")]
    yield f"| way | {' | '.join(f'nano-{suite}' for suite in suites)} | unseen faults |"
    yield "|---" * (len(suites) + 2) + "|"
    for way in (*WAYS, "static", "human"):
        cells = [_cell(_arm(documents[suite], way)) for suite in suites]
        yield f"| `{way}` | {' | '.join(cells)} | {_over(faults, way)} |"


def figure(documents: Mapping[str, JSON]) -> str:
    """Returns an SVG: for each suite with runs and each way the mean and its 95 % interval."""
    suites = {
        name: document
        for name, document in documents.items()
        if not name.startswith("fault-") and any(arm["runs"] for arm in document["arms"].values())
    }
    ways = (*WAYS, "static", "human")
    wide, high = LABELS + len(suites) * (PANEL + GAP), TOP + LINE * len(ways) + FOOT
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">'
    title = "<title>Clean success on the vault by way to search, with 95 % intervals</title>"
    names = [_text(4, TOP + LINE * row, way) for row, way in enumerate(ways)]
    panels = [
        mark
        for column, (suite, document) in enumerate(suites.items())
        for mark in _panel(LABELS + column * (PANEL + GAP), suite, document, ways)
    ]
    return "\n".join([f"{head}{title}<style>{STYLE}</style>", *names, *panels, "</svg>"]) + "\n"


def _panel(left: int, suite: str, document: JSON, ways: tuple[str, ...]) -> Iterator[str]:
    yield _text(left, 14, f"nano-{suite}, clean success in %", "name")
    bottom = TOP + LINE * len(ways) - 10
    for percent in range(0, 101, 25):
        x = left + PANEL * percent / 100
        yield f'<path class="grid" d="M{x:g} {TOP - 14}V{bottom}"/>'
        yield _text(x, bottom + 16, str(percent), "tick")
    for row, way in enumerate(ways):
        arm = _arm(document, way)
        if arm and arm["runs"]:
            ends = [left + PANEL * arm["mean"][end] for end in ("low", "value", "high")]
            y = TOP + LINE * row - 4
            css = "own" if way == "full" else "way"
            yield f'<path class="{css}" d="M{ends[0]:.1f} {y}H{ends[2]:.1f}"/>'
            yield f'<circle class="{css}" cx="{ends[1]:.1f}" cy="{y}" r="4"/>'


def _text(x: float, y: float, text: str, css: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{css}">{text}</text>'


def _arm(document: Any, way: str) -> Any:
    arms = document["arms"]
    return next((arms[name] for name in arms if name == way or name.startswith(f"{way}:")), None)


def _cell(arm: Any) -> str:
    if not arm or not arm["runs"]:
        return "–"
    return f"{_percent(arm['mean'])}, {arm['proven']} of {arm['runs']} proven"


def _over(documents: list[Any], way: str) -> str:
    """Returns the mean over faults. Each fault has one run of each strategy and is a unit."""
    runs = [run for document in documents for run in document["runs"] if run["arm"] == way]
    if not runs:
        return "–"
    proven = sum(run["standing"] == "proven" for run in runs)
    clean = [[run["clean_success"]] for run in runs]
    if len(runs) < 2:
        return f"{100 * clean[0][0]:.1f}, {proven} of 1 proven"  # one unit has no interval
    return f"{_percent(interval(clean, 'mean').to_json())}, {proven} of {len(runs)} proven"


def _percent(figure: Any) -> str:
    return "{:.1f} [{:.1f}, {:.1f}]".format(
        *(100 * figure[end] for end in ("value", "low", "high"))
    )


if __name__ == "__main__":
    main()
