"""Whether a faulty file could be one that a person wrote: by its text alone.

Promises: nothing runs. Does not cover: what the fault does; that is for the tests to say.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from meta_agent.core.parsing.syntax import parse_python

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Loose = Counter[tuple[str, str]]  # (function, name): how often


def changes_tree(before: bytes, after: bytes) -> bool:
    """Whether the edited source parses, to something else."""
    try:
        return ast.dump(parse_python(after)) != ast.dump(parse_python(before))
    except (SyntaxError, ValueError):
        return False


def could_be_written(before: bytes, after: bytes) -> bool:
    """Another program, and nothing in it that its author would have seen at once."""
    return changes_tree(before, after) and not leaves_loose_ends(before, after)


def leaves_loose_ends(before: bytes, after: bytes) -> bool:
    """Whether an argument, a variable, an import or a private function is used no more: who never
    used it would not have written it."""
    return not _loose(parse_python(after)) <= _loose(parse_python(before))


def _loose(module: ast.Module) -> _Loose:
    read = _read(module)
    found: _Loose = Counter(("", name) for name in _imported(module) if name not in read)
    for node in ast.walk(module):
        if isinstance(node, _FUNCTIONS):
            if node.name.startswith("_") and not node.name.endswith("_") and node.name not in read:
                found["", node.name] += 1
            own, local = _read(node), set(_bound(node))
            found.update((node.name, name) for name in local - own)
    return found


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)


def _bound(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _read(node: ast.AST) -> set[str]:
    """Names and attributes that are read; those in texts count too (`__all__`, annotations)."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            found.add(one.id)
        elif isinstance(one, ast.Attribute):
            found.add(one.attr)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            found.add(one.value)
    return found
