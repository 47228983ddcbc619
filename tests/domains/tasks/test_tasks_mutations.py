"""Each operator: what it makes of a line."""

from __future__ import annotations

import pytest

from meta_agent.domains.tasks.planting._likely import changes_tree
from meta_agent.domains.tasks.planting._mutations import Mutation, mutations

BODY = "def f(a, b):\n    {}\n    return a\n"
ROWS = [
    ("boundary", "x = a < b", "x = a <= b"),
    ("boundary", "x = (a)  >=  b", "x = (a)  >  b"),
    ("off_by_one", "x = len(a) > 3", "x = len(a) > 2"),
    ("off_by_one", "x = range(b + 1)", "x = range(b)"),
    ("lost_condition", "x = a and b", "x = b"),
    ("lost_condition", "x = a or b()", "x = a"),
    ("lost_condition", "x = g(b.A | b.B)", "x = g(b.A)"),
    ("loose_check", "x = a is not None", "x = a"),
    ("loose_check", "x = a.y is None", "x = not a.y"),
    ("lost_conversion", "x = str(b)", "x = b"),
    ("lost_conversion", "x = b().strip()", "x = b()"),
    ("lost_conversion", "x = b.copy()", "x = b"),
    ("lost_clamp", "x = min(a, 7)", "x = a"),
    ("lost_choice", "x = a if b else b", "x = a"),
    ("lost_case", "x = isinstance(a, (int, str))", "x = isinstance(a, int)"),
    ("lost_case", "x = a in ('p', 'q', 'r')", "x = a in ('p', 'q')"),
    ("lost_case", "x = a in ('p', 'q')", "x = a == 'p'"),
    ("lost_case", "x = a not in ('p', 'q')", "x = a != 'q'"),
    (
        "lost_case",
        "try:\n        b()\n    except (A, B):\n        pass",
        "try:\n        b()\n    except B:\n        pass",
    ),
    ("swapped_arguments", "x = g(a, b)", "x = g(b, a)"),
    ("lost_argument", "x = g(a, key=b)", "x = g(a)"),
    ("lost_argument", "x = a.split(b, 1)", "x = a.split(b)"),
    ("lost_branch", "if a:\n        b = 2\n    a = b", "a = b"),
    (
        "lost_branch",
        "if a:\n        b = 2\n    elif b:\n        b = 3\n    else:\n        b = 4",
        "if a:\n        b = 2\n    else:\n        b = 4",
    ),
    ("lost_statement", "b.add(a)\n    a = b", "a = b"),
]


@pytest.mark.parametrize(("operator", "before", "after"), ROWS)
def test_an_operator_makes_the_mistake_that_it_is_named_after(
    operator: str, before: str, after: str
) -> None:
    source = BODY.format(before).encode()
    made = [
        one.applied(source).decode()
        for one in mutations("m.py", source)
        if one.operator == operator
    ]
    assert BODY.format(after) in made


@pytest.mark.parametrize(
    "line",
    [
        "x = a == b",
        "x = a + b",
        "x = -a",
        "x = not a",
        "x = 5",
        "x = True",
        "x = max(a)",
        "raise ValueError(a)",
        "x = g(1, [b])",
        "x = a.isdigit()",
        "x = a in b",
        "x = a[0]",
        "x = a[1:]",
        "x = lambda c: c.strip()",
        "x = a in (11, 12, 13)",
        "x = h(a[:1], int(a[1:2]), int(a[3:4]), int(a[5:6]))",
    ],
)
def test_what_no_person_would_leave_unnoticed_is_not_planted(line: str) -> None:
    assert mutations("m.py", BODY.format(line).encode()) == []


@pytest.mark.parametrize(
    "source",
    [
        "x = a < 2\n",  # outside of functions
        'def f():\n    """Is 1 < 2."""\n',
        "@g(a < 1)\ndef f():\n    pass\n",
        "def f(a: g[1:]) -> h[2:]:\n    pass\n",
        "def f(a):\n    return f'{a[1:]}'\n",
        "def f(a):\r\n    return a < 1\r\n",
        "def f(:\n",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert mutations("m.py", source.encode()) == []


def test_a_mutation_knows_its_function() -> None:
    source = b"class C:\n    @d\n    def m(self):\n        def inner():\n            return x < 1\n"
    found = {(one.function, one.def_line) for one in mutations("m.py", source)}
    assert found == {("C.m", 4)}


def test_offsets_count_bytes() -> None:
    source = 'def f(a):\n    return "é", len(a) - 1\n'.encode()
    made = {one.applied(source).decode() for one in mutations("m.py", source)}
    assert 'def f(a):\n    return "é", len(a)\n' in made


def test_an_edit_that_changes_nothing_or_breaks_the_file_is_seen() -> None:
    source = b"def f():\n    return 1\n"
    assert not changes_tree(source, source + b"# more\n")
    assert not changes_tree(source, b"def f(:\n")
    mutation = Mutation("off_by_one", "m.py", "f", 1, 20, 21, b"2")
    assert changes_tree(source, mutation.applied(source))
