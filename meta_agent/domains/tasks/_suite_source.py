"""Test files as text: finding a test, and taking it out.

Does not cover: tests that no plain `def` in their own file defines (generated ones): they cannot be
taken out, and the callers give up on what they decide.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.domains.swe import Tree
from meta_agent.domains.tasks._names import asked_names

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


def asked_by(source: bytes, name: str) -> frozenset[str]:
    """What a test's function asks of others by name; nothing where it cannot be found."""
    try:
        return asked_names(find_test(read_module(source), name))
    except UnreachableError:
        return frozenset()


def read_module(source: bytes) -> ast.Module:
    """A test file's tree."""
    try:
        source.decode()
        return parse_python(source)
    except (SyntaxError, ValueError) as problem:
        raise UnreachableError(str(problem)) from problem


def find_test(module: ast.Module, name: str) -> Def:
    """A test's function."""
    return _find(module, name)[0]


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
    module = read_module(source)
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
    read_module(text.encode())
    return text.encode()
