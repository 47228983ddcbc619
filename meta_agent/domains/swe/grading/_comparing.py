"""Which ways to compare a patch brings: methods that decide `==`, `<`, `in` and `isinstance`.

Python compares values of plain types; any other value is compared by methods of its class. A patch
that brings or changes such a method can say yes to whatever a test asks. Accepted are methods that
the file has already, and methods that the reference fix brings or changes too.

Does not cover: methods whose names are put together when the code runs. The runner looks for them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from meta_agent.core.parsing.syntax import parse_python

_CLASS_CHANGING: Final = frozenset({"__class__", "__getattribute__"})
_METHODS: Final = _CLASS_CHANGING | frozenset(
    {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"}
    | {"__instancecheck__", "__subclasscheck__", "__subclasshook__"}
)
_SETTINGS: Final = frozenset({"compare", "cmp", "eq"})  # of a field of a dataclass or of attrs
_PLAIN: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (str, bytes, int, float, complex, list, dict, tuple, set, frozenset)
}
_HARMLESS: Final = frozenset(
    {"__new__", "__init__", "__repr__", "__str__", "__hash__", "__format__", "__reduce__"}
)
ComparingPlace = tuple[str, str]
"""A class, empty outside of one, and the method or setting that compares."""


def brings_comparisons(before: str, after: str, gold: str) -> bool:
    """Returns whether `after` has a comparison method (as `__eq__`) that `before` and `gold` lack.

    The texts are versions of one file. Raises SyntaxError or ValueError if one is not Python.
    """
    base, reference = comparing_places(before), comparing_places(gold)
    accepted = {
        (name, code)
        for places in (base, reference)
        for (_, name), codes in places.items()
        for code in codes
    }
    for place, codes in comparing_places(after).items():
        changed_by_gold = reference.get(place, set()) - base.get(place, set())
        if not changed_by_gold and any((place[1], code) not in accepted for code in codes):
            return True
    return False


def comparing_places(source: str) -> dict[ComparingPlace, set[str]]:
    """Returns the code of a file's comparison methods, such as `__eq__`, by (class, method)."""
    places: dict[ComparingPlace, set[str]] = defaultdict(set)
    waiting: list[tuple[ast.AST, str, frozenset[str]]] = [(parse_python(source), "", _METHODS)]
    while waiting:
        parent, kind, names = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            for name in _defined_names(node, names):
                places[kind, name].add(ast.dump(node))
            if isinstance(node, ast.ClassDef):
                waiting.append((node, node.name, _METHODS | _overridable(node)))
            else:
                inner = _METHODS if isinstance(node, ast.FunctionDef) else names
                waiting.append((node, kind, inner))
    return places


def _defined_names(node: ast.AST, names: frozenset[str]) -> Iterator[str]:
    """Yields those of the names that a node defines, sets or spells."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in names:
            yield name
        case ast.Assign(targets=targets):
            for part in (part for target in targets for part in ast.walk(target)):
                name = part.id if isinstance(part, ast.Name) else getattr(part, "attr", "")
                if name in names and isinstance(getattr(part, "ctx", None), ast.Store):
                    yield name
        case ast.AnnAssign(target=ast.Name(id=name)) if name in names:
            yield name
        case ast.Constant(value=str(name)) if name in _METHODS - _CLASS_CHANGING:
            yield name
        case ast.keyword(arg=str(name), value=value) if name in _SETTINGS:
            if not (isinstance(value, ast.Constant) and value.value is True):
                yield name


def _overridable(kind: ast.ClassDef) -> frozenset[str]:
    """Returns the methods of the plain types that a class derives from."""
    names = (getattr(base, "id", getattr(base, "attr", "")) for base in kind.bases)
    methods = (dir(_PLAIN[name]) for name in names if name in _PLAIN)
    return frozenset(name for group in methods for name in group) - _HARMLESS
