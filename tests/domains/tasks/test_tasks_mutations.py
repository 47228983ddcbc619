"""Each operator: what it makes of a line."""

from __future__ import annotations

import pytest

from meta_agent.domains.tasks._mutations import Mutation, changes_tree, mutations

BODY = "def f(a, b):\n    {}\n    return a\n"
ROWS = [
    ("boundary", "x = a < b", "x = a <= b"),
    ("boundary", "x = (a)  >=  b", "x = (a)  >  b"),
    ("negated_comparison", "x = a not in b", "x = a in b"),
    ("negated_comparison", "x = a is None", "x = a is not None"),
    ("wrong_operator", "x = a - b  # why", "x = a + b  # why"),
    ("wrong_operator", "x = a // b", "x = a / b"),
    ("and_or", "x = a and b", "x = a or b"),
    ("off_by_one", "x = a[1:]", "x = a[2:]"),
    ("off_by_one", "x = a[1:]", "x = a[0:]"),
    ("wrong_constant", "x = True", "x = False"),
    ("swapped_arguments", "x = g(a, [b])", "x = g([b], a)"),
    ("dropped_argument", "x = g(a, key=b)", "x = g(a)"),
    ("sibling_call", "x = max(a)", "x = min(a)"),
    ("sibling_call", "x = a.lstrip()", "x = a.rstrip()"),
    ("inverted_condition", "x = 1 if a else 2", "x = 1 if not a else 2"),
    ("inverted_condition", "x = 1 if not a else 2", "x = 1 if a else 2"),
    ("sign", "x = -a", "x = a"),
    ("exception_type", "raise ValueError(a)", "raise TypeError(a)"),
    ("wrong_variable", "x = a.y", "x = b.y"),
    ("dropped_branch", "if a:\n        b = 2\n    a = b", "a = b"),
    ("dropped_statement", "b.add(a)\n    a = b", "a = b"),
    ("loop_control", "for a in b:\n        break", "for a in b:\n        continue"),
    ("early_exit", "for a in b:\n        g(a)", "for a in b:\n        g(a)\n        break"),
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


def test_a_default_is_a_mistake_of_its_own() -> None:
    (found,) = mutations("m.py", b"def f(a, *, deep=True):\n    return a, deep\n")[:1]
    assert found.operator == "wrong_default"
    assert b"deep=False" in found.applied(b"def f(a, *, deep=True):\n    return a, deep\n")


@pytest.mark.parametrize(
    "source",
    [
        "x = 1 < 2\n",  # outside of functions
        'def f():\n    """Is 1 < 2."""\n',
        "@g(1)\ndef f():\n    pass\n",
        "def f(a: g[1]) -> h[2]:\n    pass\n",
        "def f(a):\n    return f'{a + 1}'\n",
        "def f(a):\r\n    return a + 1\r\n",
        "def f(:\n",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert mutations("m.py", source.encode()) == []


def test_a_mutation_knows_its_function() -> None:
    source = b"class C:\n    @d\n    def m(self):\n        def inner():\n            return 1\n"
    found = {(one.function, one.def_line) for one in mutations("m.py", source)}
    assert found == {("C.m", 4)}


def test_offsets_count_bytes() -> None:
    source = 'def f(a):\n    return "é", a + 1\n'.encode()
    made = {one.applied(source).decode() for one in mutations("m.py", source)}
    assert 'def f(a):\n    return "é", a - 1\n' in made


def test_an_edit_that_changes_nothing_or_breaks_the_file_is_seen() -> None:
    source = b"def f():\n    return 1\n"
    assert not changes_tree(source, source + b"# more\n")
    assert not changes_tree(source, b"def f(:\n")
    mutation = Mutation("off_by_one", "m.py", "f", 1, 20, 21, b"2")
    assert changes_tree(source, mutation.applied(source))
