"""Each rule of the table: what it makes of a line, and what no rule touches."""

from __future__ import annotations

import pytest

from meta_agent.domains.tasks._faults import faults
from meta_agent.domains.tasks._source import is_edit, leaves_unused

BODY = "def f(a, b):\n    {}\n    return a\n"
ROWS = [
    ("boundary", "x = a < b", "x = a <= b"),
    ("off_by_one", "x = range(b + 1)", "x = range(b)"),
    ("lost_condition", "x = a and b", "x = b"),
    ("lost_condition", "x = (a or b) and c and d", "x = (a or b) and d"),
    ("lost_part", "x = str(b)", "x = b"),
    ("lost_part", "x = b().strip()", "x = b()"),
    ("lost_part", "x = min(a, 7)", "x = a"),
    ("lost_part", "x = a if b else 7", "x = a"),
    ("lost_argument", "x = g(a, key=b)", "x = g(a)"),
    ("lost_branch", "if a:\n        b = 2\n    a = b", "a = b"),
    ("lost_statement", "b.add(a)\n    a = b", "a = b"),
]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(("rule", "before", "after"), ROWS)
def test_a_rule_makes_the_mistake_that_it_is_named_after(
    rule: str, before: str, after: str, ends: str
) -> None:
    source, faulty = (BODY.format(text).replace("\n", ends).encode() for text in (before, after))
    made = [fault.applied(source) for fault in faults("m.py", source) if fault.rule == rule]
    assert faulty in made


@pytest.mark.parametrize(
    "source",
    [
        "x = a < 2\n",  # outside of functions
        'def f():\n    """Is 1 < 2."""\n',
        "@g(a < 1)\ndef f():\n    pass\n",
        "def f(a: g(b=1)) -> h(c=2):\n    pass\n",
        "def f(a):\n    return f'{a + 1}'\n",
        "def f(a):\r    return a < 1\r",
        "def f(:\n",
        "def f(a):\n    raise ValueError(a)\n",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert faults("m.py", source.encode()) == []


def test_a_fault_knows_its_function_and_the_lines_of_its_fix() -> None:
    source = b"class C:\n    @d\n    def m(self):\n        def inner():\n            return x < 1\n"
    (fault,) = faults("m.py", source)
    assert (fault.function, fault.def_line) == ("C.m", 4)
    assert fault.fixed_lines(source) == ["            return x < 1"]


def test_offsets_count_bytes() -> None:
    source = 'def f(a):\n    return "é", len(a) - 1\n'.encode()
    made = {fault.applied(source).decode() for fault in faults("m.py", source)}
    assert 'def f(a):\n    return "é", len(a)\n' in made


@pytest.mark.parametrize(
    ("after", "unused"),
    [
        ("def f(a, b):\n    return g(a)\n", True),  # a parameter
        ("import os\n\n\ndef f(a, b):\n    return g(a, b)\n", True),  # an import
        ("def f(a, b):\n    c = a\n    return g(a, b)\n", True),  # a variable
        ("def _h():\n    pass\n\n\ndef f(a, b):\n    return g(a, b)\n", True),
        ("def f(a, b):\n    return g(b, a)\n", False),
    ],
)
def test_nobody_writes_what_is_never_used(after: str, unused: bool) -> None:
    before = b"def f(a, b):\n    return g(a, b, 1)\n"
    assert is_edit(before, after.encode())
    assert leaves_unused(before, after.encode()) is unused


@pytest.mark.parametrize("after", [b"def f(:\n", b"def f():\n    return 1  # more\n"])
def test_an_edit_that_changes_nothing_or_breaks_the_file_is_none(after: bytes) -> None:
    assert not is_edit(b"def f():\n    return 1\n", after)
