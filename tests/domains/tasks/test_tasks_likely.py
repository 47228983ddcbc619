"""Which faults a person could have left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tasks_purse import FILES, written

from meta_agent.domains.tasks import Bench
from meta_agent.domains.tasks._bench import Said
from meta_agent.domains.tasks._issue import _is_meant
from meta_agent.domains.tasks._journal import Journal
from meta_agent.domains.tasks.planting._likely import leaves_loose_ends
from meta_agent.domains.tasks.planting._mutations import Mutation, mutations
from meta_agent.domains.tasks.planting._sound import Sound, read_sound
from meta_agent.domains.tasks.planting._trial import Trial

SOURCE = '''"""Numbers in words."""


def spelled(number):
    """In words.

    >>> spelled(2)
    'two'
    >>> spelled(1)
    'one'
    """
    number = int(number)
    # Below nothing there is no word.
    if number < 0:
        return "less"
    if number > 4:
        return "many"
    return ["none", "one", "two", "three", "four"][number]
'''
TESTS = """import pytest

from purse.words import spelled


@pytest.mark.parametrize(
    ("number", "word"), [(0, "none"), (1, "one"), (2, "two"), (3, "three"), ("4", "four")]
)
def test_spelled(number, word):
    assert spelled(number) == word


def test_edges():
    assert spelled(-1) == "less"
    assert spelled(9) == "many"
"""


@pytest.fixture
def words(tmp_path: Path, bench: Callable[[Path], Bench]) -> Bench:
    files = {"purse/words.py": SOURCE, "tests/test_words.py": TESTS}
    return bench(written(tmp_path / "purse", {**FILES, **files}))


@pytest.fixture
def sound(words: Bench, tmp_path: Path) -> Sound:
    return read_sound(words, 2, Journal(tmp_path / "out.jsonl", {}))


@pytest.mark.parametrize(
    ("after", "loose"),
    [
        ("def f(a, b):\n    return g(a)\n", True),  # an argument
        ("import os\n\n\ndef f(a, b):\n    return g(a, b)\n", True),  # an import
        ("def f(a, b):\n    c = a\n    return g(a, b)\n", True),  # a variable
        ("def _h():\n    pass\n\n\ndef f(a, b):\n    return g(a, b)\n", True),
        ("def f(a, b):\n    return g(b, a)\n", False),
    ],
)
def test_nobody_writes_what_is_never_used(after: str, loose: bool) -> None:
    before = b"def f(a, b):\n    return g(a, b, 1)\n"
    assert leaves_loose_ends(before, after.encode()) is loose


def test_what_was_unused_before_is_no_loose_end() -> None:
    source = b"def f(a, b):\n    return a < 1\n"
    assert not leaves_loose_ends(source, source.replace(b"<", b"<="))


def test_the_comment_goes_with_the_statement_that_it_is_about() -> None:
    lost = [one for one in mutations("w.py", SOURCE.encode()) if one.operator == "lost_branch"]
    after = lost[0].applied(SOURCE.encode()).decode()
    assert "less" not in after and "# Below nothing" not in after and "number = int" in after


def test_empty_lines_do_not_pile_up_where_a_statement_was() -> None:
    source = b"def f(a):\n    a = g(a)\n\n    if a:\n        a = 1\n\n    return a\n"
    (lost,) = (one for one in mutations("f.py", source) if one.operator == "lost_branch")
    assert lost.applied(source) == b"def f(a):\n    a = g(a)\n\n    return a\n"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (Said("", "ValueError", "ValueError: a purse never starts below zero"), True),
        (Said("", "ValueError", "ValueError: invalid literal for int() with base 10: '2'"), False),
        (Said("", "PurseError", "purse.PurseError: 3"), True),
    ],
)
def test_an_error_that_just_happens_is_not_asked_for(words: Bench, said: Said, meant: bool) -> None:
    assert _is_meant(words.package, said) is meant


def test_a_rare_fault_is_told_beside_what_still_works(words: Bench, sound: Sound) -> None:
    """`number < 0` is forgotten: one test of six notices, and the examples hold."""
    (lost,) = (
        one for one in _of(words, "lost_branch") if b"less" not in one.applied(SOURCE.encode())
    )
    found = Trial(words, sound, lost, 2).measured()
    assert found["fail"] == ["tests/test_words.py::test_edges"] and not found["wide"]
    text = found["issue"]
    assert text.startswith("`spelled(-1)` gives four instead of less\n")
    assert "`spelled(1)`" in text and "`one`" in text and "purse 1.2" in text


def test_what_the_documentation_shows_still_holds(words: Bench, sound: Sound) -> None:
    (found,) = (
        one for one in _of(words, "boundary") if b"number >= 4" in one.applied(SOURCE.encode())
    )
    (shown,) = sound.examples.values()
    assert shown.out == "'two'\n'one'\n"
    assert "refused" not in Trial(words, sound, found, 2).measured()
    more = {"from purse.words import spelled\nprint(spelled(4))": Said("four\n", "", "")}
    telling = replace(sound, examples={**sound.examples, **more})
    said = Trial(words, telling, found, 2).measured()
    assert said == {"refused": "breaks what the documentation shows"}


def _of(bench: Bench, operator: str) -> list[Mutation]:
    path = "purse/words.py"
    return [one for one in mutations(path, bench.package.tree[path]) if one.operator == operator]
