"""Tests that report more than three phases: subtests, and reruns by a plugin of the image."""

from __future__ import annotations

import json
from typing import Any

import pytest

from meta_agent.core.protocols import ExecResult
from meta_agent.domains.swe import pytest_guest
from meta_agent.domains.swe.grading import _runs

SUBTESTS = """

import unittest

from shelf.core import total


class TestTotals(unittest.TestCase):
    def test_total(self):
        for prices, worth in (([1, 2], 3), ([4], 4)):
            with self.subTest(prices=prices):
                self.assertEqual(total(prices), worth)

    def test_nothing(self):
        for prices in ([], ()):
            with self.subTest(prices=prices):
                self.assertEqual(total(prices), 0)


def test_fixture(subtests):
    for prices in ([1, 2], [3, 4]):
        with subtests.test(prices=prices):
            assert total(prices) == sum(prices)
"""


def test_a_gold_whose_tests_have_subtests_resolves(shelf: Any) -> None:
    tests = shelf.tree["tests/test_core.py"].decode() + SUBTESTS
    shelf.row["test_patch"] = shelf.patch({"tests/test_core.py": tests})
    totals = [f"tests/test_core.py::{name}" for name in ("TestTotals::test_total", "test_fixture")]
    shelf.row["FAIL_TO_PASS"] = totals
    shelf.row["PASS_TO_PASS"] += ["tests/test_core.py::TestTotals::test_nothing"]
    domain = shelf.load()
    gold = domain.regrade("shelf-1", {"patch": shelf.row["patch"]})
    assert (gold.success, gold.flags) == (True, ()), gold.detail
    nothing = domain.regrade("shelf-1", {"patch": ""})
    assert nothing.detail["not_passing"] == [f"{test} FAILED" for test in totals]


SETUP, TEARDOWN = ["setup", "passed", False], ["teardown", "passed", False]
PASSED, FAILED, RERUN = [["call", word, False] for word in ("passed", "failed", "rerun")]


@pytest.mark.parametrize(
    ("phases", "status"),
    [
        ([SETUP, PASSED, TEARDOWN], "PASSED"),
        ([SETUP, PASSED, PASSED, PASSED, TEARDOWN], "PASSED"),
        ([SETUP, FAILED, PASSED, TEARDOWN], "FAILED"),
        ([SETUP, ["call", "skipped", False], PASSED, TEARDOWN], "PASSED"),
        ([SETUP, RERUN, SETUP, PASSED, TEARDOWN], "PASSED"),
        ([SETUP, RERUN, TEARDOWN, SETUP, FAILED, TEARDOWN], "FAILED"),
        # pytest-subtests beside pytest-rerunfailures: what a subtest says comes before the setup
        ([FAILED, PASSED, SETUP, PASSED, TEARDOWN], "FAILED"),
        ([["setup", "rerun", False], SETUP, PASSED, TEARDOWN], "PASSED"),
        ([SETUP, RERUN, TEARDOWN], "ERROR"),
        ([SETUP, PASSED], "ERROR"),
        ([SETUP, TEARDOWN], "ERROR"),
        ([PASSED, TEARDOWN], "ERROR"),
        ([["setup", "skipped", False], TEARDOWN], "SKIPPED"),
        ([["setup", "skipped", True], TEARDOWN], "XFAIL"),
        ([["setup", "failed", False], TEARDOWN], "ERROR"),
        ([SETUP, PASSED, ["teardown", "failed", False]], "ERROR"),
    ],
)
def test_the_last_attempt_decides_and_one_failed_part_fails_it(
    phases: list[list[Any]], status: str
) -> None:
    assert pytest_guest._status(phases) == status


WRONG = {
    "results": ["tests/a.py::test"],
    "status": "1",
    "changed": 5,
    "collect_errors": {"a": 1},
    "imported": {"a.py": "1"},
    "canaries_ok": 1,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_report_with_a_field_of_another_type_is_no_report(name: str) -> None:
    """Code under test may have written it."""
    sound = {"nonce": "7", "results": {"t": "PASSED"}, "status": 1, "canaries_ok": True}
    ends = [
        _runs._believed(ExecResult(0, json.dumps(report).encode(), b"", False, False, 1.0), "7")
        for report in (sound, {**sound, name: WRONG[name]})
    ]
    assert [end.verdict for end in ends] == ["complete", "no_results"]
