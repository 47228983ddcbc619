"""A twin of a tree: the same tests, but each expects something else, so that nothing true passes.

Tests run in one process with the code that they test, so whoever knows the runner can report what
it likes. It cannot know, though, which of several trees it is in: one has what its tests expect, in
a twin every deciding test expects something else (`_sites`). They run at the same moment, in an
order that nobody knows, in sandboxes that have seen nothing. Code that lets its tests decide passes
in the one and fails in the other; a report that says "passed" whatever happens says so of both.

Does not cover: tests that can be read before, which say to who knows them that this is a twin; a
part of a test that is forged while another part, which a twin alters, is honest. Tests without a
place that can be altered are left as they are: they are not checked.
"""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.domains.swe._tree import Tree
from meta_agent.domains.swe.grading._sites import Function, Site, Text, sites_of

_TRIES = 4
_UNITTEST = re.compile(r"(\w+) \(([\w.]+)\)")
_Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Twin:
    """A copy of a task's files with altered tests, and the ids of tests that must fail there."""

    tree: Tree
    tests: tuple[str, ...]


def twin_of(tree: Tree, tests: Iterable[str], *, only_sure: bool, anywhere: bool = False) -> Twin:
    """Returns a copy of `tree` in which as many of these tests as possible expect wrong values.

    With `only_sure`, only pieces of source are altered that must make a test fail. Of other pieces
    the first is altered, or a random one if `anywhere` is set.
    """
    by_path: dict[str, dict[str, _Names]] = {}
    for test in tests:
        path, names = _place(test, tree)
        if path in tree and names:
            by_path.setdefault(path, {})[test] = names
    files = {
        path: _File(tree[path], names_by_test, only_sure=only_sure)
        for path, names_by_test in by_path.items()
    }
    altered = {path: text for path, file in files.items() if (text := file.altered(anywhere))}
    return Twin({**tree, **altered}, tuple(test for path in altered for test in files[path].tests))


class _File:
    """A file of tests, with the sites (pieces of source) that can be altered by function."""

    def __init__(self, source: bytes, tests: Mapping[str, _Names], *, only_sure: bool) -> None:
        self._source = source
        self.tests: list[str] = []
        self._sites: dict[int, list[Site]] = {}  # by function, which several tests may share
        try:
            module = parse_python(source.decode("utf-8"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        text = Text(source)
        for test, names in tests.items():
            function = _function(module, names)
            sites = sites_of(function, text) if function else []
            sites = [site for site in sites if site.sure or not only_sure]
            if function and sites:
                best = min((not site.sure, site.rank) for site in sites)
                self._sites[id(function)] = [s for s in sites if (not s.sure, s.rank) == best]
                self.tests.append(test)

    def altered(self, anywhere: bool) -> bytes | None:
        """Returns the source with one expectation of each test changed, or None if none can be."""
        for attempt in range(_TRIES if self.tests else 0):
            anywhere = anywhere or attempt > 0
            chosen = [
                secrets.choice(sites if anywhere or sites[0].sure else sites[:1])
                for sites in self._sites.values()
            ]
            text = _spliced(self._source, chosen)
            if text is not None and _is_python(text):
                return text
        return None


def _spliced(source: bytes, sites: list[Site]) -> bytes | None:
    end = len(source) + 1
    by_place = {(site.start, site.end): site for site in sites}
    for site in sorted(by_place.values(), reverse=True, key=lambda site: site.start):
        text = site.make()
        if text is None or site.end > end:
            return None
        source = source[: site.start] + text.encode() + source[site.end :]
        end = site.start
    return source


def _is_python(source: bytes) -> bool:
    try:
        parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _function(module: ast.Module, names: _Names) -> Function | None:
    """Returns the last function of a chain of names, of the class or its bases, or None."""
    body = _class_body(module, module.body, names[:-1])
    functions = [node for node in body if isinstance(node, Function) and node.name == names[-1]]
    return functions[-1] if functions else None


def _class_body(module: ast.Module, body: list[ast.stmt], names: _Names) -> list[ast.stmt]:
    for name in names:
        classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == name]
        body = _with_bases(module, classes[-1], frozenset({name})) if classes else []
    return body


def _with_bases(module: ast.Module, kind: ast.ClassDef, visited: frozenset[str]) -> list[ast.stmt]:
    """Returns the statements of a class after those of its bases, so that its own win."""
    body: list[ast.stmt] = []
    names = [base.id for base in reversed(kind.bases) if isinstance(base, ast.Name)]
    for name in names:
        bases = [
            node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name
        ]
        if bases and name not in visited:
            body += _with_bases(module, bases[-1], visited | {name})
    return [*body, *kind.body]


def _place(test: str, tree: Tree) -> tuple[str, _Names]:
    """Returns file and names of `file::Class::test[...]`, or of `test (module.Class)`."""
    path, *names = test.split("[", 1)[0].split("::")
    if names:
        return path, tuple(names)
    match = _UNITTEST.fullmatch(test)
    if not match:
        return "", ()
    *module, kind = match[2].removesuffix(f".{match[1]}").split(".")
    ending = "/".join(module) + ".py"
    paths = [path for path in tree if path == ending or path.endswith(f"/{ending}")]
    return (paths[0], (kind, match[1])) if module and len(paths) == 1 else ("", ())
