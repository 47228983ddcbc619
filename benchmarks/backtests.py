"""Does a backtest foretell a training? `python benchmarks/backtests.py WORKSPACE...`

Every edit of reward or filter in the stored runs has a replay: how much closer its pay follows
clean success on stored attempts (*alignment*). What training brought is the edit's own cell, else
its share of a bundle, both in points of clean success on the search split, training seed 0. The
table has a row for each edit. The AUC is the chance that an edit that helped has the higher replay.

Not covered: edits that were never trained, and legs of a staged run, whose weights go on.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from meta_agent.core.gate.numbers.ranks import auc_of
from meta_agent.core.loop.verbs.cells import WORTHWHILE

Z: Final = 1.96
Row = Mapping[str, Any]


class Edit(NamedTuple):
    """An edit of reward or filter: what its replay says, and what its training brought (shares)."""

    name: str
    rule: str
    reading: str
    foretold: float
    brought: float


def edits(workspace: Path) -> Iterator[Edit]:
    """Yields the edits of a workspace that were replayed and trained."""
    steps = _outcomes(workspace / "ledger.sqlite")
    rules = {row["id"]: row["hypothesis"]["rule"] for row in steps["candidate"]}
    brought: dict[str, float] = {}
    for bundle in steps["bundle"]:
        brought |= {share["candidate"]: share["delta"] for share in bundle["shares"]}
    for cell in steps["cell"]:
        if len(cell["members"]) == 1 and cell["delta"] is not None:
            brought[cell["members"][0]] = cell["delta"]
    for screen in steps["screen"]:
        numbers, name = screen.get("numbers"), screen["candidate"]
        if numbers and name in brought:
            change = numbers["after"]["alignment"] - numbers["before"]["alignment"]
            yield Edit(name, rules[name], numbers["reading"], change, brought[name])


def _outcomes(ledger: Path) -> dict[str, list[Row]]:
    steps: dict[str, list[Row]] = {kind: [] for kind in ("candidate", "bundle", "cell", "screen")}
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT kind, outcome FROM steps WHERE outcome IS NOT NULL ORDER BY seq")
        for kind, outcome in rows:
            if kind in steps:
                steps[kind].append(json.loads(outcome))
    return steps


def report(found: list[Edit]) -> Iterator[str]:
    """Yields a table of the edits, and how well the replays foretell what training brought."""
    yield "| edit | rule | replay says | alignment | points by training |\n|---|---|---|---|---|"
    for edit in sorted(found, key=lambda edit: -edit.foretold):
        numbers = f"{edit.foretold:+.3f} | {100 * edit.brought:+.1f}"
        yield f"| {edit.name} | {edit.rule} | {edit.reading} | {numbers} |"
    helped, others = (
        [edit.foretold for edit in found if (edit.brought > WORTHWHILE) is which]
        for which in (True, False)
    )
    if not helped or not others:
        yield f"{len(helped)} edits helped and {len(others)} did not: too few for an AUC"
        return
    share, error = auc_of(helped, others)
    low, high = max(0.0, share - Z * error), min(1.0, share + Z * error)
    yield f"{len(helped)} of {len(found)} edits brought more than {100 * WORTHWHILE:.0f} points."
    yield f"AUC of the alignment: {share:.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    print("\n".join(report([edit for folder in sys.argv[1:] for edit in edits(Path(folder))])))
