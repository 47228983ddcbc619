"""The bench of all ways to search: what it declares, and the table of its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ways import WAYS, declared, figure, table


def test_all_is_declared_before_the_first_run_at_equal_attempts(tmp_path: Path) -> None:
    parts = list(declared(tmp_path, tiny=True))
    suite, *faults = parts
    assert suite.pieces() == ["swe/1", "swe/2"] and len(faults) == 2
    for part in parts:
        runs = list(part.comparison.runs())
        assert {run.config.budget for run in runs} == {960}
        assert {run.condition for run in runs} >= set(WAYS)
        kept = json.loads((part.comparison.folder / "comparison.json").read_text())
        assert kept["budget"] == 960 and kept["seeds"] == list(part.comparison.seeds)
    people = [run.condition for run in suite.comparison.runs() if run.condition not in WAYS]
    assert people[0] == "static" and people[1].startswith("human:")


def test_the_table_has_a_row_for_every_way_and_says_what_is_missing() -> None:
    share = {"value": 0.5, "low": 0.4, "high": 0.6}
    arms: dict[str, Any] = {name: {"runs": 0} for name in WAYS}
    arms["tree"] = {"runs": 5, "mean": share, "proven": 3}
    arms["human:/there"] = {"runs": 5, "mean": share, "proven": 0}
    fault = {"runs": [{"arm": "tree", "standing": "proven", "clean_success": 1.0}]}
    rows = list(table({"swe": {"arms": arms}, "fault-swe-x": fault, "fault-swe-y": fault}))
    assert len(rows) == 2 + len(WAYS) + 2
    (row,) = (row for row in rows if row.startswith("| `tree`"))
    assert (
        row == "| `tree` | 50.0 [40.0, 60.0], 3 of 5 proven | 100.0 [100.0, 100.0], 2 of 2 proven |"
    )
    assert "| `human` | 50.0 [40.0, 60.0], 0 of 5 proven | – |" in rows
    assert "| `full` | – | – |" in rows
    (row,) = (row for row in table({"fault-swe-x": fault}) if row.startswith("| `tree`"))
    assert row.endswith("| 100.0, 1 of 1 proven |"), "after the first fault there is no interval"


def test_the_figure_has_a_panel_for_each_suite_that_was_run() -> None:
    share = {"value": 0.5, "low": 0.4, "high": 0.6}
    ran: dict[str, Any] = {name: {"runs": 5, "mean": share} for name in WAYS}
    waits: dict[str, Any] = {name: {"runs": 0} for name in WAYS}
    drawn = figure({"swe": {"arms": ran}, "math": {"arms": waits}, "fault-swe-x": {"arms": ran}})
    root = ElementTree.fromstring(drawn)
    assert len(root.findall("{*}circle")) == len(WAYS)
    assert "nano-swe" in drawn and "nano-math" not in drawn and "fault" not in drawn
