"""Test files as text: finding a test, showing what it did before it failed, taking it out.

Does not cover: tests that no plain `def` in their own file defines (generated ones): they cannot be
taken out, and the callers give up on what they decide.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable

from meta_agent.domains.swe import Tree
from meta_agent.parsing.syntax import parse_python

_SHOWN_LINES = 20
_MOST_LINES = 40
Def = ast.FunctionDef | ast.AsyncFunctionDef


class UnreachableError(ValueError):
    """A test whose source cannot be found."""


def without_tests(tree: Tree, tests: Iterable[str]) -> dict[str, bytes]:
    """The files that hold these tests, with the tests taken out."""
    by_file: dict[str, set[str]] = {}
    for test in tests:
        path, name = plain_name(test)
        by_file.setdefault(path, set()).add(name)
    return {path: _without(tree[path], path, names) for path, names in sorted(by_file.items())}


def plain_name(test: str) -> tuple[str, str]:
    """File and name of a test's function, without parameters."""
    path, _, name = test.partition("::")
    return path, name.split("[", 1)[0]


def steps_to_failure(source: bytes, name: str, lines: Iterable[int]) -> list[str]:
    """What a test did up to the statement that failed, without the checks that held.

    Raises `UnreachableError` where the failure lies outside of the test itself.
    """
    function, _ = _find(_module(source), name)
    end = function.end_lineno or function.lineno
    inside = [line for line in lines if function.body[0].lineno <= line <= end]
    if not inside:
        raise UnreachableError(f"{name} fails elsewhere")
    last = _statement_at(function, inside[-1])
    return _shown(function, last, source.decode().split("\n"))


def called_names(code: str) -> list[str]:
    """The names that a piece of code calls, outermost call last."""
    try:
        tree = parse_python(textwrap.dedent(code))
    except SyntaxError:
        return []
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [_last_name(func) for func in calls]
    return [name for name in reversed(names) if name]


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _module(source: bytes) -> ast.Module:
    try:
        source.decode()
        return parse_python(source)
    except (SyntaxError, ValueError) as problem:
        raise UnreachableError(str(problem)) from problem


def _find(module: ast.Module, name: str) -> tuple[Def, list[ast.stmt]]:
    """A test's function and the block that it stands in; a class may inherit it in its file."""
    *classes, last = name.split("::")
    block = module.body
    for part in classes:
        found = [one for one in block if isinstance(one, ast.ClassDef) and one.name == part]
        if len(found) != 1:
            raise UnreachableError(f"{name}: no single class {part}")
        block = _defining(module, found[0], last).body
    functions = [one for one in block if isinstance(one, Def) and one.name == last]
    if len(functions) != 1:
        raise UnreachableError(f"{name}: {len(functions)} definitions")
    return functions[0], block


def _defining(module: ast.Module, found: ast.ClassDef, method: str) -> ast.ClassDef:
    """The class itself, or the one of its ancestors in this file that has the method."""
    if any(isinstance(one, Def | ast.ClassDef) and one.name == method for one in found.body):
        return found
    names = {base.id for base in found.bases if isinstance(base, ast.Name)} - {found.name}
    parents = [one for one in module.body if isinstance(one, ast.ClassDef) and one.name in names]
    for parent in parents:
        above = _defining(module, parent, method)
        if any(isinstance(one, Def) and one.name == method for one in above.body):
            return above
    return found


def _without(source: bytes, path: str, names: set[str]) -> bytes:
    module = _module(source)
    lines = source.decode().split("\n")
    gone: list[Def] = []
    blocks: dict[int, list[ast.stmt]] = {}
    for name in sorted(names):
        function, block = _find(module, name)
        gone.append(function)
        blocks[id(block)] = block
    removed = {id(one) for one in gone}
    fill = {
        id(block[0]): " " * block[0].col_offset + "pass"
        for block in blocks.values()
        if block is not module.body and all(id(one) in removed for one in block)
    }
    cut: dict[int, str | None] = {}
    for one in gone:
        first = min([one.lineno, *(item.lineno for item in one.decorator_list)])
        cut |= dict.fromkeys(range(first, (one.end_lineno or first) + 1))
        cut[first] = fill.get(id(one))
    kept = [cut.get(number, line) for number, line in enumerate(lines, 1)]
    text = "\n".join(line for line in kept if line is not None)
    _module(text.encode())
    return text.encode()


def _statement_at(function: Def, line: int) -> ast.stmt:
    """The innermost statement on a line; a `with` that failed at its head is shown whole."""
    found = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt)
        and node is not function
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return min(found, key=lambda node: (node.end_lineno or 0) - node.lineno)


def _shown(function: Def, last: ast.stmt, text: list[str]) -> list[str]:
    """The function's statements up to the last one; as many as fit, whole, from the end."""
    indent = function.body[0].col_offset
    dropped, strings = _dropped(function, last), _inside_strings(function)
    stop = last.end_lineno or last.lineno
    chosen: list[str] = []
    for node in reversed([one for one in function.body if one.lineno <= last.lineno]):
        numbers = range(node.lineno, min(node.end_lineno or node.lineno, stop) + 1)
        lines = [
            text[number - 1] if number in strings else text[number - 1][indent:].rstrip()
            for number in numbers
            if number not in dropped
        ]
        if chosen and len(chosen) + len(lines) > _SHOWN_LINES:
            return ["...", *chosen]
        chosen = [*lines, *chosen]
    if len(chosen) > _MOST_LINES:
        raise UnreachableError(f"{function.name} takes {len(chosen)} lines to fail")
    return chosen


def _inside_strings(function: Def) -> set[int]:
    """Lines that begin inside a string, where blanks and # are content."""
    return {
        number
        for node in ast.walk(function)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        for number in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }


def _dropped(function: Def, last: ast.stmt) -> set[int]:
    """Lines of the docstring and of checks that held before the one that failed."""
    lines: set[int] = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.stmt) or node is last or node.lineno >= last.lineno:
            continue
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if (is_text or _is_check(node)) and (node.end_lineno or 0) < last.lineno:
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _is_check(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.With):
        return "raises" in ast.unparse(node.items[0]).lower()
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call and "assert" in ast.unparse(node.value.func)  # type: ignore[attr-defined]
