"""Names as source text shows them: what a file offers, what a test asks for.

Promises: nothing runs. Does not cover: names that are made while a program runs (`setattr`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from meta_agent.core.parsing.syntax import parse_python

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def parsed(source: bytes) -> ast.Module | None:
    """None where a file is no Python that we can read."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError):
        return None


def defined_names(sources: Iterable[bytes]) -> frozenset[str]:
    """The functions and classes of some files."""
    trees = [tree for source in sources if (tree := parsed(source))]
    nodes = (node for tree in trees for node in ast.walk(tree))
    names = (node.name for node in nodes if isinstance(node, _DEFINITIONS))
    return frozenset(name for name in names if not name.startswith("__"))


def offered_names(source: bytes) -> frozenset[str]:
    """What others can say to a file: its definitions, parameters, attributes; no local variable."""
    tree = parsed(source)
    return frozenset(_offered(tree, True)) if tree else frozenset()


def _offered(node: ast.AST, outside: bool) -> Iterator[str]:
    if isinstance(node, _DEFINITIONS):
        yield node.name
    if isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and outside:
        yield node.id
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).split(".")[0]
    inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for child in ast.iter_child_nodes(node):
        yield from _offered(child, outside and not inside)


def asked_names(function: ast.AST) -> frozenset[str]:
    """What a piece of code calls, reads or passes by name; what it binds itself is its own."""
    nodes = list(ast.walk(function))
    own = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in nodes if isinstance(one, ast.arg)}
    own |= {one.name for one in nodes if isinstance(one, _DEFINITIONS)}
    read = {one.id for one in nodes if isinstance(one, ast.Name)} - own
    read |= {one.attr for one in nodes if isinstance(one, ast.Attribute)}
    read |= {one.arg for one in nodes if isinstance(one, ast.keyword) and one.arg}
    return frozenset(read | {one.name for one in nodes if isinstance(one, ast.alias)})
