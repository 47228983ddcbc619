"""Issue texts, and test files with tests taken out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _tasks_purse import FILES, TESTS, written

from meta_agent.domains.tasks import read_package
from meta_agent.domains.tasks._bench import Failure
from meta_agent.domains.tasks._issue import gives_away, issue_text, scrubbed
from meta_agent.domains.tasks._source import UnreachableError, without_tests

SUITE = b'''import pytest


@pytest.mark.slow
def test_one():
    """Speaks."""
    cart = Cart()
    assert cart.total() == 3


class TestMore:
    def test_two(self):
        with pytest.raises(ValueError):
            check(1)


def test_three():
    helper()
'''


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_a_hidden_test_leaves_no_trace_and_a_file_that_parses(ends: bytes) -> None:
    tree = {"t.py": SUITE.replace(b"\n", ends)}
    hidden = without_tests(tree, ["t.py::test_one[a-b]", "t.py::TestMore::test_two"])
    assert hidden["t.py"].replace(b"\r", b"") == (
        b"import pytest\n\n\n\n\nclass TestMore:\n    pass\n\n\ndef test_three():\n    helper()\n"
    )


@pytest.mark.parametrize("test", ["t.py::test_generated", "t.py::TestNone::test_two"])
def test_a_test_without_a_definition_cannot_be_hidden(test: str) -> None:
    with pytest.raises(UnreachableError):
        without_tests({"t.py": SUITE}, [test])


def test_a_text_shows_what_the_plainest_test_does_and_how_it_fails(tmp_path: Path) -> None:
    package = read_package(written(tmp_path / "purse", FILES))
    message = "assert 6 == 8\n +  where 6 = total([1, 2])"
    failures = {
        "tests/test_coins.py::test_total": Failure("AssertionError", message, (8,), {}),
        "tests/test_coins.py::test_change[8-x]": Failure(
            "AssertionError", "assert " * 40, (31,), {"amount": "8", "wanted": "[5]"}
        ),
    }
    text = issue_text(package, package.tree, failures)
    assert text == (
        "purse: AssertionError: assert 6 == 8\n\nWith purse 1.2 this should pass:\n\n"
        "```python\nfrom purse.coins import total\n\n"
        "coins = [1, 2, 5]\nassert total(coins) == 8\n```\n\n"
        f"It ends with\n\n```\nAssertionError: {message}\n```\n"
    )
    assert "test_total" not in text and "assert total(coins, start=2)" not in text
    del failures["tests/test_coins.py::test_total"]
    assert "amount = 8\nwanted = [5]\nassert change(" in issue_text(package, package.tree, failures)


def test_a_text_with_a_long_string_is_a_script_that_runs(tmp_path: Path) -> None:
    suite = 'def test_shown():\n    text = """\\\na:\n  1\n"""\n    assert text == ""\n'
    package = read_package(written(tmp_path / "purse", FILES))
    failure = Failure("AssertionError", "assert 1", (6,), {})
    text = issue_text(package, {"t.py": suite.encode()}, {"t.py::test_shown": failure})
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert code == 'text = """\\\na:\n  1\n"""\nassert text == ""\n'


def test_a_text_of_a_commit_shows_the_symptom_of_every_test(tmp_path: Path) -> None:
    """A hidden test of a symptom that no text names would fail whoever mends what is named."""
    package = read_package(written(tmp_path / "purse", FILES))
    suite = b"def test_add():\n    assert 1 == 2\n\n\ndef test_take():\n    assert 30 == 4\n"
    failures = {
        "t.py::test_take": Failure("AssertionError", "assert 30 == 4", (6,), {}),
        "t.py::test_add": Failure("AssertionError", "assert 1 == 2", (2,), {}),
    }
    text = issue_text(package, {"t.py": suite}, failures, every=True)
    assert re.findall(r"```python\n(.*)\n```", text) == ["assert 1 == 2", "assert 30 == 4"]
    assert "This should pass too:" in text
    assert "30 == 4" not in issue_text(package, {"t.py": suite}, failures)


@pytest.mark.parametrize("lines", [(), (2,)])
def test_a_failure_elsewhere_has_no_text(lines: tuple[int, ...]) -> None:
    failure = {"t.py::test_two": Failure("ValueError", "no", lines, {})}
    package = read_package
    assert issue_text(package, {"t.py": TESTS.encode()}, failure) == ""  # type: ignore[arg-type]


def test_what_differs_from_run_to_run_is_taken_out() -> None:
    said = "<A at 0x7f2a3b4c5d> in /tmp/ab_1/x/data.txt at localhost:40123"
    assert scrubbed(said) == "<A at 0x...> in .../data.txt at localhost:PORT"


@pytest.mark.parametrize(
    ("text", "line", "given"),
    [
        ("I saw  if start < 0:  there", "    if start < 0:", True),
        ("else: x", "    else:", False),
        ("start is wrong", "    if start < 0:", False),
    ],
)
def test_a_line_of_the_fix_gives_it_away(text: str, line: str, given: bool) -> None:
    assert gives_away(text, [line]) is given
