"""Reads Python files without running them: names, edits, tests, and files without some tests.

Does not cover: names that are set while a program runs. A test that no plain `def` in its own file
defines raises `UnreachableError`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.domains.swe import Tree

Def = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class UnreachableError(ValueError):
    """Raised if the source of a test function cannot be found."""


def parsed(source: bytes) -> ast.Module | None:
    """Returns the syntax tree of a Python file, or None if it cannot be parsed."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError):
        return None


def read_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Returns the variable names that syntax nodes read."""
    names = (node for node in nodes if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Returns the names that syntax nodes assign, define, import or take as parameters."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (*_DEFINITIONS, ast.ExceptHandler)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def is_edit(before: bytes, after: bytes) -> bool:
    """Returns whether two sources parse and differ in more than layout and comments."""
    trees = parsed(before), parsed(after)
    return None not in trees and ast.dump(trees[0]) != ast.dump(trees[1])  # type: ignore[arg-type]


def leaves_unused(before: bytes, after: bytes) -> bool:
    """Returns whether an edit leaves a variable, import or private function that nothing reads."""
    return not _unused(parse_python(after)) <= _unused(parse_python(before))


def _unused(module: ast.Module) -> Counter[tuple[str, str]]:
    """Counts the names that nothing reads, by their function (empty: the module) and name."""
    read_in_module = _mentioned(module)
    unused: Counter[tuple[str, str]] = Counter()
    for node in ast.walk(module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            unused.update(("", name) for name in bound_names(node.names) - read_in_module)
        elif isinstance(node, Def):
            if node.name.startswith("_") and node.name.strip("_") == node.name[1:]:
                unused.update(("", name) for name in {node.name} - read_in_module)
            names = {child for child in ast.walk(node) if isinstance(child, (ast.arg, ast.Name))}
            unused.update((node.name, name) for name in bound_names(names) - _mentioned(node))
    return unused


def _mentioned(tree: ast.AST) -> set[str]:
    """Returns the names that code reads, attributes and all texts (as in `__all__`) included."""
    nodes = list(ast.walk(tree))
    names = read_names(nodes) | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return names | {str(node.value) for node in nodes if isinstance(node, ast.Constant)}


def plain_name(test: str) -> tuple[str, str]:
    """Returns the file and the function name, without parameters, of a pytest id."""
    path, _, name = test.partition("::")
    return path, name.split("[", 1)[0]


def find_test(module: ast.Module, name: str) -> Def:
    """Returns the test function `name` or `Class::name`. Raises UnreachableError if not found."""
    return _find(module, name)[0]


def without_tests(tree: Tree, tests: Iterable[str]) -> dict[str, bytes]:
    """Returns the test files with `tests` cut out. Raises UnreachableError if a test is missing."""
    by_file: dict[str, set[str]] = {}
    for test in tests:
        path, name = plain_name(test)
        by_file.setdefault(path, set()).add(name)
    return {path: _without(tree[path], path, names) for path, names in sorted(by_file.items())}


def _find(module: ast.Module, name: str) -> tuple[Def, list[ast.stmt]]:
    """Returns a test's function and the block that it stands in."""
    block, parts = module.body, name.split("::")
    for number, part in enumerate(parts, 1):
        kind = Def if number == len(parts) else ast.ClassDef
        nodes = [node for node in block if isinstance(node, kind) and node.name == part]
        if len(nodes) != 1:
            raise UnreachableError(
                f"the test {name} needs one definition of {part} in its file, not {len(nodes)}"
            )
        if isinstance(nodes[0], Def):
            return nodes[0], block
        block = nodes[0].body
    raise UnreachableError(f"{name} is a class: name one of its test functions")


def _without(source: bytes, path: str, names: set[str]) -> bytes:
    module = parsed(source)
    if module is None:
        raise UnreachableError(f"correct {path}: it is not valid Python")
    lines = source.split(b"\n")
    places = [_find(module, name) for name in sorted(names)]
    removed = {id(function) for function, _ in places}
    for function, block in sorted(places, key=lambda place: -place[0].lineno):
        first = min([function.lineno, *(node.lineno for node in function.decorator_list)])
        empty = block is not module.body and all(id(node) in removed for node in block)
        fill = [b" " * function.col_offset + b"pass"] if empty and function is block[0] else []
        lines[first - 1 : function.end_lineno] = fill
    return b"\n".join(lines)
