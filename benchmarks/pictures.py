"""Draws the README's two pictures: the loop, and the page of the recorded run in a real browser.

    python benchmarks/pictures.py [--out docs/pictures]

The page is what `meta-agent demo` and `report --html` make, as chromium shows its first screen.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

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
WIDE, HIGH, GAP, TOP = 124, 68, 16, 42
STYLE: Final = """
rect { fill: #f4f6f8; stroke: #57606a; } .kept { fill: #dcefe1; }
path { fill: none; stroke: #57606a; stroke-width: 1.5; }
text { font: 12px sans-serif; fill: #24292f; text-anchor: middle; } .name { font-weight: bold; }
.said { fill: #57606a; }
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/pictures")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    (out / "loop.svg").write_text(loop(), encoding="utf-8")
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
