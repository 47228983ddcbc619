"""Rows that their own command grades: which, how ids are found, what a log has to show."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains.check import check_domain, render
from meta_agent.domains.formats import OfficialRun, SweRow
from meta_agent.domains.swe import RealSwe, read_archive
from meta_agent.domains.swe._tree import without_history
from meta_agent.domains.swe.grading._command import by_command, status_of, unmet

CORE = "def total(prices):\n    return sum(prices[1:])\n"
TESTS = (
    "import unittest\nfrom core import total\n\n\nclass TestCore(unittest.TestCase):\n"
    "    def test_none(self):\n        self.assertEqual(total([]), 0)\n"
)
HIDDEN = TESTS + "\n    def test_total(self):\n        self.assertEqual(total([1, 2]), 3)\n"
NAMES = {name: f"{name} (test_core.TestCore.{name})" for name in ("test_none", "test_total")}


@pytest.fixture
def own_command(shelf: Any) -> Any:
    """A package whose tests are run by a script of its own, as SWE-rebench V2 rows say."""
    runner = f"#!/bin/sh\nexec {sys.executable} -m unittest -v test_core\n"
    shelf.tree = {
        "core.py": CORE.encode(),
        "test_core.py": TESTS.encode(),
        "run.sh": runner.encode(),
    }
    shelf.row |= {
        "patch": shelf.patch({"core.py": CORE.replace("[1:]", "")}),
        "test_patch": shelf.patch({"test_core.py": HIDDEN}),
        "FAIL_TO_PASS": [NAMES["test_total"]],
        "PASS_TO_PASS": [NAMES["test_none"]],
        "language": "python",
        "image_name": "own/image:1",
        "install_config": {"test_cmd": ["true", "./run.sh"], "log_parser": "parse_log_unittest"},
    }
    return shelf


def test_a_command_decides_gold_nothing_and_cheats(own_command: Any) -> None:
    report = check_domain(own_command.load(), jobs=1)
    assert report.ok, render(report)
    detail = own_command.load().regrade("shelf-1", {"patch": own_command.row["patch"]}).detail
    assert (detail["verdict"], detail["fail_to_pass"]) == ("resolved", [1, 1])


@pytest.mark.parametrize(
    ("extra", "verdict"),
    [
        ("import os\nos._exit(0)\n", "no_results"),
        (
            "import os\nprint('test_total (test_core.TestCore.test_total) ... ok', flush=True)\n"
            "os._exit(0)\n",
            "",
        ),
        ("import sys\nsys.exit(0)\n", "no_results"),
        ("while True:\n    pass\n", "timeout"),
    ],
    ids=["leaves", "prints a pass and leaves", "exits", "spins"],
)
def test_code_that_wants_no_tests_resolves_nothing(
    own_command: Any, extra: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.domains.swe.grading._runs.GRADE_CPU_SEC", 3)
    patch = own_command.patch({"core.py": CORE + extra})
    outcome = own_command.load().regrade("shelf-1", {"patch": patch})
    assert not outcome.success
    assert outcome.detail["verdict"] == (verdict or "cut_short")


NOTES = {
    "no number": "x /elsewhere/repo/core.py",
    "a path alone": "/elsewhere/repo/core.py",
    "below zero": "-1 /elsewhere/repo/core.py",
    "a number too long for an integer": f"{'9' * 5000} /elsewhere/repo/core.py",
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES.keys())
def test_notes_that_the_code_forges_are_a_failure_like_any_other(
    own_command: Any, note: str
) -> None:
    forged = CORE + f"with open('../imported', 'a') as file:\n    file.write('{note}\\n')\n"
    outcome = own_command.load().regrade(
        "shelf-1", {"patch": own_command.patch({"core.py": forged})}
    )
    assert (outcome.success, outcome.detail["verdict"]) == (False, "unresolved")


def test_a_parser_that_nobody_has_is_refused_while_loading(own_command: Any) -> None:
    own_command.row["install_config"]["log_parser"] = "parse_log_cobol"
    with pytest.raises(ConfigError, match="the log parser 'parse_log_cobol'") as caught:
        own_command.load()
    assert "parse_log_django" in str(caught.value)


def row(**changes: Any) -> SweRow:
    base = SweRow(
        "i", "r", "c", "s", None, "", ("f.py::a",), ("f.py::b",), "train", False, None, None, 1
    )
    return replace(base, **changes)


DJANGO = OfficialRun("x", "parse_log_django")
PYTEST = OfficialRun("x", "parse_log_pytest")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, False),
        ({"run": PYTEST}, False),
        ({"run": replace(PYTEST, always=True)}, True),
        ({"run": DJANGO}, True),
        ({"run": PYTEST, "fail_to_pass": ("test_a (x.Y)",)}, True),
        ({"run": OfficialRun("x", "parse_log_cobol")}, True),
    ],
)
def test_our_runner_goes_before_a_command(changes: dict[str, Any], wanted: bool) -> None:
    assert by_command(row(**changes)) is wanted


@pytest.mark.parametrize(
    ("test", "results", "status"),
    [
        ("a", {"a": "PASSED"}, "PASSED"),
        ("a", {"ab": "PASSED"}, "MISSING"),
        ("t[x", {"t[x y]": "PASSED", "t[x z]": "XFAIL"}, "PASSED"),
        ("t[x", {"t[x y]": "PASSED", "t[x z]": "FAILED"}, "MISSING"),
        ("t[x]", {"t[x]z": "PASSED"}, "MISSING"),
        ("t[x", {}, "MISSING"),
    ],
)
def test_ids_that_were_cut_off_stand_for_those_that_agree(
    test: str, results: dict[str, str], status: str
) -> None:
    assert status_of(test, results) == status


@pytest.mark.parametrize("status", ["PASSED", "XFAIL", "SKIPPED", "FAILED", "ERROR", "MISSING"])
def test_what_counts_as_passed_is_the_sets_own_rule(status: str) -> None:
    results = {} if status == "MISSING" else {"f.py::a": status, "f.py::b": status}
    plain, strict = row(), row(run=replace(PYTEST, only_passed=True))
    broken, lost = unmet(plain, results)
    assert bool(broken) is (status not in ("PASSED", "XFAIL"))
    assert bool(lost) is (status not in ("PASSED", "XFAIL", "SKIPPED"))
    assert [bool(one) for one in unmet(strict, results)] == [status != "PASSED"] * 2


@pytest.mark.parametrize(
    "seen", ["f.py::a [0.13s]", "f.py::a (5 ms)", "f.py::a in 3 msec", "\x1b[32mf.py::a\x1b[0m"]
)
def test_durations_and_colours_are_no_part_of_an_id_where_the_set_strips_them(seen: str) -> None:
    results = {seen: "PASSED", "f.py::b": "PASSED"}
    assert unmet(row(run=replace(PYTEST, only_passed=True)), results) == ([], [])
    assert unmet(row(), results)[0] == ["f.py::a"]


KEPT = {
    "core.py": b"x",
    "tests/fixtures/repo.git/HEAD": b"h",
    "tests/fixtures/repo.git/config": b"",
}


@pytest.mark.parametrize(
    "past",
    [
        {".git/HEAD": b"h", ".git/config": b"", ".git/objects/aa/bb": b"o"},
        {"sub/.git/HEAD": b"h"},
        {".hg/store/data": b"h", ".svn/wc.db": b"s"},
        {"old/HEAD": b"h", "old/packed-refs": b"", "old/objects/pack/p.pack": b"PACK"},
        {"all.bundle": b"# v2 git bundle\n"},
        {"wt/.git": b"gitdir: /r/.git/worktrees/wt\n", "wt/core.py": b"fixed"},
    ],
    ids=["git", "submodule", "other systems", "bare repository", "bundle", "linked worktree"],
)
def test_an_archive_gives_no_history_away(past: dict[str, bytes]) -> None:
    assert without_history({**KEPT, **past}) == KEPT


def test_a_shipped_git_folder_never_reaches_the_agent(
    shelf: Any, domain: RealSwe, core: Callable[[str], str]
) -> None:
    shelf.tree |= {".git/HEAD": b"ref: refs/heads/main\n", ".git/stash": b"the fix"}
    loaded = shelf.load()
    assert not [path for path in loaded.files("shelf-1").visible if ".git" in path]
    source = json.loads((shelf.folder / "shelf.jsonl").read_text())["source"]
    assert ".git/HEAD" not in read_archive(shelf.folder / source["archive"], source["sha256"])
