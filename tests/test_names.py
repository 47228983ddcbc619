"""A name in the package says what it holds.

A participle or a pronoun says how a value came about, so a reader has to look for its meaning
in the code around it. The rule covers names where they are bound: assignments, loops,
comprehensions, attributes of classes, parameters and functions.
It does not cover attributes of instances.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).resolve().parents[1] / "meta_agent"

PRONOUNS: Final = frozenset(
    {"one", "ones", "own", "thing", "things", "stuff", "info", "obj", "tmp"}
)
PAST: Final = frozenset(
    {"found", "told", "known", "seen", "said", "asked", "shown", "made", "kept", "wanted", "named"}
    | {"given", "left", "gone", "had"}
)
EMPTY: Final = PRONOUNS | PAST
EMPTY_FOR_A_FUNCTION: Final = (
    EMPTY | {"heard", "read_", "taken", "dealt", "meant"} | {*("spoken", "held", "done")}
)


def empty_names(tree: ast.AST) -> list[tuple[int, str]]:
    """Returns the line and name of each binding that does not say what it holds."""
    bindings = list(_bindings(tree))
    has_sides = any(name == "right" for _, name, _ in bindings)  # then `left` is the other side
    return sorted(
        (line, name)
        for line, name, words in bindings
        if name.strip("_") in words and not (name == "left" and has_sides)
    )


def _bindings(tree: ast.AST) -> Iterator[tuple[int, str, frozenset[str]]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name, EMPTY
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name, EMPTY_FOR_A_FUNCTION


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "for one in rows: pass",
        "[told for told in rows]",
        "lambda seen: 0",
        "def f(*, kept): pass",
        "def _done(): pass",
        "async def told(): pass",
        "class Row:\n    gone: int",
        "if (known := 1): pass",
        "left = 1",
    ],
)
def test_a_name_that_says_nothing_is_reported(code: str) -> None:
    assert len(empty_names(ast.parse(code))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "done = 1",
        "left, right = 1, 2",
        "rows.found = 1",
        "f(kept=1)",
        "founder = 1",
        "print(found)",
    ],
)
def test_other_names_are_not_reported(code: str) -> None:
    assert empty_names(ast.parse(code)) == []


def test_every_name_in_the_package_says_what_it_holds() -> None:
    reported = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in empty_names(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not reported, "\n".join(reported)
