"""The same patch with parts of the reference in it: what must not decide a grade.

Two kinds of parts: files that the run does not import, or reads as well, and the parts of a class
that say whether two values are equal: its comparing methods, its constructor, its fields, its
bases. A patch passes with these of its own (the run before) and with the reference's, or its grade
is unchecked. The second tree also takes the functions that these parts call by name from the
reference.

Does not cover: a wrong value that a test never looks into, and a file that another program reads.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.domains.swe._patch import Changes, overlay
from meta_agent.domains.swe._tree import Tree
from meta_agent.domains.swe.grading._sift import TaskFiles

_COMPARING: Final = frozenset(
    {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__hash__"}
    | {"__instancecheck__", "__subclasscheck__", "__subclasshook__", "__getattribute__"}
    | {"__class__", "__bool__", "__len__", "__iter__"}
)
_MADE: Final = frozenset({"__init__", "__new__", "__post_init__", "__slots__"})
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Body = list[ast.stmt]
_Scope = tuple[str, ...]


def besides(
    files: TaskFiles, changes: Changes, imported: Mapping[str, int]
) -> Iterator[tuple[Tree, Tree, tuple[str, ...]]]:
    """Yields each other tree that a patch has to pass in, and what is the reference's there.

    `imported` are changed files that the run says it imported, and how often it opened each. Those
    that it also read are the reference's on the disk alone: the second value.
    """
    patched, reference = overlay(files.graded, changes), overlay(files.graded, files.gold or {})
    sources = [p for p in changes if p.endswith(".py") and p in imported and p in patched]
    data: Changes = {path: reference.get(path) for path in changes if path not in sources}
    read = {path: reference.get(path, b"") for path in sources if imported[path] > 1}
    trees = [patched]
    for helpers in (False, True):
        parts = data | _grafts(files.graded, patched, reference, sources, helpers=helpers)
        if (tree := overlay(patched, parts)) not in trees:
            trees.append(tree)
            yield tree, {}, tuple(sorted(p for p in parts if tree.get(p) != patched.get(p)))
    if read:
        yield overlay(patched, data), read, tuple(sorted(read))


def _grafts(
    before: Tree, patched: Tree, reference: Tree, paths: Iterable[str], *, helpers: bool
) -> Changes:
    """Returns the files of `paths` that change where parts of classes are the reference's."""
    grafts: Changes = {}
    for path in paths:
        texts = [
            (t.get(path) or b"").decode("utf-8", "replace") for t in (before, patched, reference)
        ]
        if (text := grafted(*texts, helpers=helpers)) != texts[1]:
            grafts[path] = text.encode()
    return grafts


def grafted(before: str, after: str, reference: str, *, helpers: bool = False) -> str:
    """Returns `after` with the parts of classes that it changes and that compare as in `reference`.

    Returns `after` itself if there are none, or if one of the texts is not Python, and a text that
    fails if the change is nested too deep to be compared. `helpers`: functions that these parts
    name are the reference's too.
    """
    try:
        base, patched, gold = (_Source(parse_python(text)) for text in (before, after, reference))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return after
    if _binds_a_class_again(patched, base, gold):
        return "raise NameError('the name of a class is bound again')\n"
    try:
        return (
            ast.unparse(patched.tree) if _graft_all(base, patched, gold, helpers=helpers) else after
        )
    except (RecursionError, MemoryError):
        return "raise RecursionError('a class is nested too deep')\n"


def _graft_all(base: _Source, patched: _Source, gold: _Source, *, helpers: bool) -> bool:
    helper_names = (base.mentions() | gold.mentions()) if helpers else frozenset()
    is_changed = False
    for scope, body in patched.bodies.items():
        is_changed |= _graft(scope, body, (base, patched, gold), helper_names)
        if scope in patched.classes and scope in base.classes and scope in gold.classes:
            node, other = patched.classes[scope], gold.classes[scope]
            if _head(node) not in (_head(base.classes[scope]), _head(other)):
                node.bases, node.keywords = other.bases, other.keywords
                node.decorator_list, is_changed = other.decorator_list, True
    return is_changed


def _binds_a_class_again(patched: _Source, base: _Source, gold: _Source) -> bool:
    """Returns whether a file binds the name of a class more often than before."""
    counts = [Counter(source.bound()) for source in (patched, base, gold)]
    names = {scope[0] for source in (base, gold) for scope in source.classes if len(scope) == 1}
    return any(counts[0][name] > max(count[name] for count in counts[1:]) for name in names)


class _Source:
    """A file's classes, and the statements of each and of the module, by where they are."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.classes: dict[_Scope, ast.ClassDef] = {}
        self.bodies: dict[_Scope, _Body] = {(): tree.body}
        waiting: list[tuple[_Scope, ast.AST]] = [((), tree)]
        while waiting:
            scope, parent = waiting.pop()
            for node in ast.iter_child_nodes(parent):
                inner = (
                    (*scope, node.name) if isinstance(node, (ast.ClassDef, *_Function)) else scope
                )
                if isinstance(node, ast.ClassDef):
                    self.classes[inner], self.bodies[inner] = node, node.body
                waiting.append((inner, node))

    def parts(self, scope: _Scope) -> dict[str, list[ast.stmt]]:
        """Returns the statements of a class, or of the module, by the name that each defines."""
        parts: dict[str, list[ast.stmt]] = {}
        for statement in self.bodies.get(scope, []):
            for name in _defined(statement):
                parts.setdefault(name, []).append(statement)
        return parts

    def bound(self) -> Iterator[str]:
        """Yields each name that the file binds, as often as it does so."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.ClassDef(name=name):
                    yield name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name
                case ast.alias(name=name, asname=other):
                    yield other or name

    def mentions(self) -> frozenset[str]:
        """Returns the names in the comparing methods and the constructors of all classes."""
        nodes = [
            node
            for scope in self.classes
            for name, statements in self.parts(scope).items()
            if name in _COMPARING | _MADE
            for statement in statements
            for node in ast.walk(statement)
        ]
        names = {getattr(node, "id", getattr(node, "attr", "")) for node in nodes}
        return frozenset(names) - {"", "self"}


def _graft(
    scope: _Scope,
    body: _Body,
    sources: tuple[_Source, _Source, _Source],
    helper_names: frozenset[str],
) -> bool:
    """Puts the reference's parts into the body of a class. Returns whether there was one."""
    before, after, reference = (source.parts(scope) for source in sources)
    is_new = not any(scope in source.bodies for source in (sources[0], sources[2]))
    is_changed = False
    for name in after.keys() | before.keys():
        patched, other = after.get(name, []), reference.get(name, [])
        if not _compares(
            name, patched or other or before[name], scope, helper_names, is_new=is_new
        ):
            continue
        if _dump(patched) in (_dump(before.get(name, [])), _dump(other)):
            continue
        place = min((n for n, node in enumerate(body) if node in patched), default=len(body))
        body[:] = [*body[:place], *other, *(node for node in body[place:] if node not in patched)]
        body[:] = body or [ast.Pass()]
        is_changed = True
    return is_changed


def _compares(
    name: str, nodes: list[ast.stmt], scope: _Scope, helper_names: frozenset[str], *, is_new: bool
) -> bool:
    """Returns whether a part of a class, or of the module, takes part in comparing values."""
    if not scope or (is_new and name not in _COMPARING):
        return name in helper_names and not is_new and isinstance(nodes[0], _Function)
    is_field = not isinstance(nodes[0], (ast.ClassDef, *_Function))
    return name in _COMPARING | _MADE | helper_names or is_field


def _defined(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case ast.ClassDef() | ast.Expr(value=ast.Constant()) | ast.Pass():
            return []
    return ["..."]  # all other statements, which may define anything


def _dump(nodes: list[ast.stmt]) -> list[str]:
    return [ast.dump(node) for node in nodes]


def _head(node: ast.ClassDef) -> str:
    return ast.dump(ast.ClassDef("", node.bases, node.keywords, [], node.decorator_list))
