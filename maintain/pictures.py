"""Draws the README's pictures: the loop, the recorded run on a terminal, and its page.

    python -m maintain.pictures [--out docs/pictures]

The run is what `meta-agent demo` says in half a minute, as lines that scroll by in an SVG without a
script; the page is what `report --html` makes of it, as chromium shows its first screen.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess  # noqa: TID251
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.ledger import Ledger
from meta_agent.reports._sentences import sentences
from meta_agent.reports.terminal._lines import LineDisplay
from meta_agent.studies.demo import play, unpacked

ROOT: Final = Path(__file__).parents[1]
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
STEPS: Final = (
    ("read twice", "untrained policy,", "then trained"),
    ("propose", "ideas as commits,", "made in sandboxes"),
    ("bundle", "all that merge,", "trained together"),
    ("leave one out", "what does better", "absent is dropped"),
    ("prove once", "unseen tasks,", "fresh seeds"),
    ("train on", "from the proof,", "while it pays"),
    ("hand over", "main: proven;", "lead: best estimate"),
)
COLUMNS, ROWS, LINE = 112, 24, 17
PLAYS, LASTS = 24, 34  # seconds: of the run, and of all with the end to be read
MARKED: Final = {"good": "PROMOTE", "bad": "REJECT", "open": "INCONCLUSIVE", "veto": " veto"}
TERMINAL: Final = """
rect { fill: #10141a; } svg { overflow: hidden; }
text { font: 11.6px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d0d7de; }
.word { fill: #79c0ff; } .good { fill: #7ee787; } .open { fill: #d2a8ff; }
.bad, .veto { fill: #ffa198; }
"""
WIDE, HIGH, GAP, TOP = 124, 68, 16, 42
STYLE: Final = """
rect { fill: #f4f6f8; stroke: #57606a; } .kept { fill: #dcefe1; }
path { fill: none; stroke: #57606a; stroke-width: 1.5; }
text { font: 12px sans-serif; fill: #24292f; text-anchor: middle; } .name { font-weight: bold; }
.said { fill: #57606a; }
"""


def main() -> None:
    """Writes the three pictures to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/pictures")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    (out / "loop.svg").write_text(loop(), encoding="utf-8")
    (out / "run.svg").write_text(seconds(), encoding="utf-8")
    page(out / "page.png")


def loop() -> str:
    """The verbs of the loop from left to right, and the way back to the next reading."""
    width = GAP + len(STEPS) * (WIDE + GAP)
    parts = [_step(at, *step) for at, step in enumerate(STEPS)]
    first, last = (_left(at) + WIDE / 2 for at in (0, 3))
    back = f"M{last} {TOP} V20 H{first} V{TOP - 3}"
    parts.append(f'<path d="{back}" marker-end="url(#tip)"/>')
    parts.append(_text((first + last) / 2, 14, "again, from the best valid cell", "said"))
    tip = (
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
        '<path d="M1 1 L7 4 L1 7"/></marker></defs>'
    )
    size = f'viewBox="0 0 {width} {TOP + HIGH + GAP}"'
    title = f"<title>The loop: {', '.join(name for name, *_ in STEPS)}</title>"
    drawn = "\n".join(parts)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return f"{svg}{title}<style>{STYLE}</style>{tip}\n{drawn}\n</svg>\n"


def seconds() -> str:
    """The recorded run as it scrolls by, and at last what it came to."""
    rows = list(_played())
    shown = {0.0: 0} | {row.at: count for count, row in enumerate(rows, 1)}
    places = {at: f"translateY({(ROWS - count) * LINE}px)" for at, count in shown.items()}
    moves = " ".join(f"{100 * at / LASTS:.2f}% {{ transform: {to}; }}" for at, to in places.items())
    end = list(places.values())[-1]
    moves += f" 100% {{ transform: {end}; }}"
    style = f"""{TERMINAL}.all {{ transform: {end}; animation: by {LASTS}s step-end infinite; }}
@keyframes by {{ {moves} }}
@media (prefers-reduced-motion: reduce) {{ .all {{ animation: none; }} }}"""
    wide, high = COLUMNS * 7 + 24, ROWS * LINE + 20
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">'
    title = "<title>A recorded run of meta-agent, played back in half a minute</title>"
    box = f'<rect width="{wide}" height="{high}" rx="8"/><svg x="12" y="8" height="{ROWS * LINE}">'
    inner = "\n".join(row.drawn(LINE * count - 4) for count, row in enumerate(rows, 1))
    return f'{head}{title}<style>{style}</style>\n{box}<g class="all">\n{inner}\n</g></svg></svg>\n'


class Row(NamedTuple):
    """A line of the terminal: when it comes, its first word, and the column of the others."""

    at: float
    word: str
    column: int
    words: str

    def drawn(self, y: int) -> str:
        css = next((name for name, sign in MARKED.items() if sign in self.words), "told")
        words = escape(self.words[: COLUMNS - self.column])
        word = f'<tspan class="word">{escape(self.word)}</tspan>' if self.word else ""
        return (
            f'<text y="{y}">{word}<tspan x="{7 * self.column}" class="{css}">{words}</tspan></text>'
        )


def _played() -> Iterator[Row]:
    """Each line of `demo`, and of the `status` after it, with the second at which it comes."""
    yield Row(0.0, "$", 2, "meta-agent demo")
    stream, clock, lines = io.StringIO(), [0.0], list[Row]()

    def wait(sec: float) -> None:
        for line in stream.getvalue().splitlines():
            lines.append(Row(clock[0], line[9:18].strip(), 10, line[19:]))
        stream.seek(0)
        stream.truncate()
        clock[0] += sec

    with tempfile.TemporaryDirectory() as folder:
        place = unpacked(Path(folder) / "run")
        with Ledger.open(place.ledger_file, owner_lock=False) as ledger:
            state = play(ledger, LineDisplay(stream), PLAYS, wait)
    wait(1)
    yield from lines
    yield Row(clock[0], "$", 2, "meta-agent status")
    for one in sentences(state):
        words = textwrap.wrap(one.words, COLUMNS - 15)
        words += [one.command.partition(" --workspace")[0]] if one.command else []
        for first, line in zip([one.about] + [""] * len(words), words, strict=False):
            yield Row(clock[0] + 0.5, first, 15, line)


def page(path: Path) -> None:
    """The first screen of the recorded run's report."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("no chromium on this machine: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        for command in (["demo", "--seconds", "0"], ["report", "--html", "page.html"]):
            at = ["--workspace", "meta-agent-demo"] if command[0] == "report" else []
            _run([sys.executable, "-m", "meta_agent", *command, *at], folder)
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        shot = ["--window-size=1180,740", f"--screenshot={path.absolute()}"]
        _run([browser, *quiet, *shot, f"file://{folder}/page.html"], folder)


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _left(at: int) -> int:
    return GAP + at * (WIDE + GAP)


def _step(at: int, name: str, *said: str) -> str:
    left, middle = _left(at), _left(at) + WIDE / 2
    kept = ' class="kept"' if at == len(STEPS) - 1 else ""
    lines = [_text(middle, TOP + 22, name, "name")]
    lines += [_text(middle, TOP + 42 + 16 * row, text, "said") for row, text in enumerate(said)]
    box = f'<rect x="{left}" y="{TOP}" width="{WIDE}" height="{HIGH}" rx="6"{kept}/>'
    way = f'<path d="M{left - GAP} {TOP + HIGH / 2} h{GAP - 2}" marker-end="url(#tip)"/>'
    return "".join([box, *lines, way if at else ""])


def _text(x: float, y: float, text: str, css: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{css}">{text}</text>'


if __name__ == "__main__":
    main()
