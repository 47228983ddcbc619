"""Twins of a tree: which tests can be altered, that nothing true passes, that they look alike."""

# ruff: noqa: E501 - sources of tests

from __future__ import annotations

import re

import pytest

from meta_agent.domains.swe._tree import Tree
from meta_agent.domains.swe.grading._twin import Twin, twin_of
from meta_agent.domains.swe.grading._values import another

PATH = "pkg/tests/test_a.py"
HEAD = "import unittest\nimport pytest\nfrom pytest import approx, raises\n\n\n"
# A true test, how it is called, and what it is named by.
SHAPES: dict[str, tuple[str, str, str]] = {
    "a literal": ("def test_it():\n    value = 6\n    assert value == 6\n", "test_it()", "test_it"),
    "a literal first": ("def test_it():\n    assert 6 == 2 * 3\n", "test_it()", "test_it"),
    "a list": ("def test_it():\n    assert sorted([2, 1]) == [\n        1,\n        2,\n    ]\n", "test_it()", "test_it"),
    "an empty list": ("def test_it():\n    assert list('') == []\n", "test_it()", "test_it"),
    "a word": ("def test_it():\n    assert 'a'.upper() + 'pple' == 'Apple'\n", "test_it()", "test_it"),
    "nearly": ("def test_it():\n    assert 0.1 + 0.2 == approx(0.3, abs=1e-3)\n", "test_it()", "test_it"),
    "nearly, by its module": ("def test_it():\n    assert 3 * 7.25 == pytest.approx(21.75)\n", "test_it()", "test_it"),
    "raises": ("def test_it():\n    with pytest.raises(ValueError):\n        int('x')\n", "test_it()", "test_it"),
    "raises, by a call": ("def test_it():\n    raises(ValueError, int, 'x')\n", "test_it()", "test_it"),
    "a name": ("def test_it():\n    wanted = {'a': 1}\n    assert dict(a=1) == wanted\n", "test_it()", "test_it"),
    "parameters": (
        "@pytest.mark.parametrize('given, wanted', [(1, 2), (2, 4)])\n"
        "def test_it(given, wanted):\n    assert given * 2 == wanted\n",
        "test_it(*ROW)",
        "test_it[1-2]",
    ),
    "one parameter": (
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n):\n    assert n == n\n",
        "test_it(1)",
        "test_it[1]",
    ),
    "a truth": ("def test_it():\n    assert 'a'.islower()\n", "test_it()", "test_it"),
    "no truth": ("def test_it():\n    assert not 'A'.islower()\n", "test_it()", "test_it"),
    "a member": ("def test_it():\n    assert 'a' in 'abc'\n", "test_it()", "test_it"),
    "more than": ("def test_it():\n    assert len('abc') > 2\n", "test_it()", "test_it"),
    "unittest": (
        "class TestIt(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(2 * 3, 6)\n",
        "TestIt('test_it').test_it()",
        "TestIt::test_it",
    ),
    "unittest, a truth": (
        "class TestIt(unittest.TestCase):\n    def test_it(self):\n        self.assertTrue(2 * 3)\n",
        "TestIt('test_it').test_it()",
        "TestIt::test_it",
    ),
    "unittest, nearly": (
        "class TestIt(unittest.TestCase):\n    def test_it(self):\n        self.assertAlmostEqual(0.1 + 0.2, 0.3)\n",
        "TestIt('test_it').test_it()",
        "TestIt::test_it",
    ),
    "unittest, raises": (
        "class TestIt(unittest.TestCase):\n    def test_it(self):\n"
        "        with self.assertRaises(ValueError):\n            int('x')\n",
        "TestIt('test_it').test_it()",
        "TestIt::test_it",
    ),
    "inherited": (
        "class Base:\n    def test_it(self):\n        assert 2 * 3 == 6\n\n\nclass TestIt(Base):\n    pass\n",
        "TestIt().test_it()",
        "TestIt::test_it",
    ),
    "the last of two": (
        "def test_it():\n    raise OSError\n\n\ndef test_it():\n    assert 2 * 3 == 6\n",
        "test_it()",
        "test_it",
    ),
    "a value of its own": (
        "def test_it():\n    prices = [1, 2]\n    assert sum(prices) == prices[0] + prices[1]\n",
        "test_it()",
        "test_it",
    ),
}  # fmt: skip


def twins(tree: Tree, tests: list[str], *, only_sure: bool) -> list[Twin]:
    return [twin_of(tree, tests, only_sure=only_sure) for _ in range(12)]


def run(source: bytes, call: str) -> None:
    names: dict[str, object] = {}
    exec(compile(source, PATH, "exec"), names)  # noqa: S102 - our own source
    marks = getattr(names.get("test_it"), "pytestmark", [])
    names["ROW"] = marks[0].args[1][0] if marks else ()
    eval(call, names)  # noqa: S307


@pytest.mark.parametrize("shape", SHAPES)
def test_a_true_test_passes_and_fails_in_every_twin(shape: str) -> None:
    body, call, name = SHAPES[shape]
    tree = {PATH: f"{HEAD}{body}".encode()}
    run(tree[PATH], call)
    for twin in twins(tree, [f"{PATH}::{name}"], only_sure=True):
        assert twin.tests == (f"{PATH}::{name}",)
        with pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
            run(twin.tree[PATH], call)


@pytest.mark.parametrize(
    "test",
    [
        f"{PATH}::test_gone",
        f"{PATH}::test_ends",
        "gone.py::test_x",
        "test_word",
        "test_word (gone.TestOld)",
        "a sentence (of a docstring) ... ok",
    ],
)
def test_a_test_that_expects_nothing_or_is_not_found_is_not_altered(test: str) -> None:
    tree = {PATH: b"def test_ends():\n    int('1')\n"}
    for twin in twins(tree, [test], only_sure=False):
        assert (twin.tests, twin.tree) == ((), tree)


def test_names_of_unittest_are_found_in_their_file() -> None:
    body, call, _ = SHAPES["unittest"]
    for name in ("test_it (tests.test_a.TestIt)", "test_it (tests.test_a.TestIt.test_it)"):
        twin = twin_of({PATH: f"{HEAD}{body}".encode()}, [name], only_sure=True)
        assert twin.tests == (name,)
        with pytest.raises(AssertionError):
            run(twin.tree[PATH], call)


def test_where_a_test_may_leave_early_only_a_known_fix_can_tell() -> None:
    tree = {PATH: b"def test_it():\n    if 6 == 2 * 3:\n        return\n    assert 1 == 2\n"}
    assert twin_of(tree, [f"{PATH}::test_it"], only_sure=True).tests == ()
    assert twin_of(tree, [f"{PATH}::test_it"], only_sure=False).tests


STYLED = """# A comment that stays.
def test_style():
    assert  n + 1 == 2   # so does this


def test_words():
    assert f() == "a \\n word"
    later = 'é', 3
"""


def test_nothing_but_values_changes_and_they_are_spelled_alike() -> None:
    tree = {PATH: STYLED.encode(), "other.py": b"x = 1\n"}
    for twin in twins(tree, [f"{PATH}::test_style", f"{PATH}::test_words"], only_sure=True):
        text = twin.tree[PATH].decode()
        shape = re.sub(r'"[^"]*"', '"a \\\\n word"', re.sub(r"== \d+", "== 2", text))
        assert shape == STYLED
        assert text != STYLED
        assert twin.tree["other.py"] == tree["other.py"]


@pytest.mark.parametrize(
    ("token", "pattern"),
    [
        ("6", r"\d"),
        ("100", r"[1-9]00|0"),
        ("0x1f", r"0x[0-9a-f]{2}"),
        ("0.25", r"0\.[1-9]5"),
        ("1e-5", r"\de-5"),
        ("True", "False"),
        ("'words'", r"'[a-z]+'"),
        ('"Others"', r'"[A-Z][a-z]+"'),
        ("b'some'", r"b'[a-z]+'"),
        ("'a1b2'", r"'[a-z]\d[a-z]\d'"),
        (r"'\n'", r"'a\\n'"),
        ("''", r"'a'"),
        ("[]", r"\[\d+\]"),
    ],
)
def test_another_value_is_spelled_as_the_first_and_differs(token: str, pattern: str) -> None:
    found = {another(token) for _ in range(40)}
    assert all(one is not None and re.fullmatch(pattern, one) for one in found), found
    assert token not in found


def test_numbers_go_both_ways_and_change_between_odd_and_even_or_not() -> None:
    others = {int(another("6") or 0) for _ in range(200)}
    assert others == {3, 4, 5, 7, 8, 9}


def test_source_that_cannot_be_read_is_left_alone() -> None:
    tree = {"a.py": b"def test_x(:\n", "b.py": b"\xff\xfe"}
    assert twin_of(tree, ["a.py::test_x", "b.py::test_x"], only_sure=False).tests == ()
