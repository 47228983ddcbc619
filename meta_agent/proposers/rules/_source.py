"""Edits to real source text: find a constant, mapping or function by syntax, change only it.

Promises: comments, spacing and everything that is not named stay as they are; code that does not
have the expected shape is left alone (functions return None), never guessed at. Nothing is run.

Does not cover: names built at run time, or a constant that is assigned twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from meta_agent.core.parsing.syntax import literal_value, parse_python


@dataclass(frozen=True)
class Constant:
    """A module-level `NAME = literal`."""

    path: str
    name: str
    value: Any


@dataclass(frozen=True)
class PythonFile:
    """One Python file of a harness."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return parse_python(self.text)
        except (SyntaxError, ValueError):
            return ast.Module(body=[], type_ignores=[])

    def constants(self) -> Iterator[Constant]:
        for name, node in self._assignments().items():
            try:
                yield Constant(self.path, name, literal_value(node))
            except (ValueError, TypeError, SyntaxError):
                continue

    def with_constant(self, name: str, value: Any) -> str | None:
        """The text with `NAME = value`."""
        node = self._assignments().get(name)
        return None if node is None else self._replaced(node, literal(value))

    def dict_node(self, name: str) -> ast.Dict | None:
        """The `{...}` that a module-level name is bound to."""
        node = self._assignments().get(name)
        return node if isinstance(node, ast.Dict) else None

    def dicts(self) -> dict[str, ast.Dict]:
        return {n: d for n in self._assignments() if (d := self.dict_node(n)) is not None}

    def with_entry(self, name: str, key: str, value: str) -> str | None:
        """The text with `key: value` in a module-level mapping; `value` is source."""
        node = self.dict_node(name)
        if node is None:
            return None
        for at, old in zip(node.keys, node.values, strict=True):
            if isinstance(at, ast.Constant) and at.value == key:
                return self._replaced(old, value)
        entry = f"{literal(key)}: {value}"
        if not node.values:
            return self._replaced(node, f"{{{entry}}}")
        return self._inserted_after(node.values[-1], f", {entry}")

    def without_entry(self, name: str, key: str) -> str | None:
        """The text with one key less in a module-level mapping."""
        node = self.dict_node(name)
        keys = [] if node is None else [k.value for k in node.keys if isinstance(k, ast.Constant)]
        if node is None or len(keys) != len(node.keys) or key not in keys:
            return None
        at = keys.index(key)
        if len(keys) == 1:
            return self._replaced(node, "{}")
        start = self._start(node.keys[at]) if at == 0 else self._end(node.values[at - 1])
        end = self._start(node.keys[at + 1]) if at == 0 else self._end(node.values[at])
        return self._cut(start, end)

    def function(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        return next((f for f in self.functions() if f.name == name), None)

    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in self.tree.body if isinstance(node, kinds)]

    def source_of(self, node: ast.AST) -> str:
        if getattr(node, "end_lineno", None) is None:
            return ""  # it has no place of its own
        start, end = self.span(node)
        return self._raw[start:end].decode("utf-8", "replace")

    def with_function(self, name: str, source: str) -> str | None:
        node = self.function(name)
        return None if node is None else self._replaced(node, source.strip("\n"))

    def without_function(self, name: str) -> str | None:
        """The text without a function and the blank lines below it."""
        node = self.function(name)
        if node is None:
            return None
        lines = self._raw.splitlines(keepends=True)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
        last = node.end_lineno or node.lineno
        while last < len(lines) and not lines[last].strip():
            last += 1
        return b"".join(lines[:first] + lines[last:]).decode()

    def uses(self, name: str) -> int:
        """How often a name is read anywhere in the file."""
        return sum(
            isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
            for node in ast.walk(self.tree)
        )

    def _assignments(self) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                target, value = node.target, node.value
            else:
                continue
            if isinstance(target, ast.Name):
                found[target.id] = value
        return found

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends in the text, in bytes."""
        return self._start(node), self._end(node)

    def _start(self, node: ast.AST | None) -> int:
        return self._offset(node.lineno, node.col_offset)  # type: ignore[union-attr]

    def _end(self, node: ast.AST | None) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[union-attr]

    def _offset(self, line: int, column: int) -> int:
        """A position in bytes: `ast` counts columns in UTF-8."""
        return self._line_starts[line - 1] + column

    @cached_property
    def _raw(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(map(len, self._raw.splitlines(keepends=True)))]

    def _cut(self, start: int, end: int, put: str = "") -> str:
        return (self._raw[:start] + put.encode() + self._raw[end:]).decode()

    def _replaced(self, node: ast.AST, source: str) -> str:
        return self._cut(self._start(node), self._end(node), source)

    def _inserted_after(self, node: ast.AST, source: str) -> str:
        return self._cut(self._end(node), self._end(node), source)


def literal(value: Any) -> str:
    """A Python literal with double quotes, as formatters write it."""
    if isinstance(value, str):
        plain = value.isprintable() and '"' not in value and "\\" not in value
        return f'"{value}"' if plain else repr(value)
    if isinstance(value, list | tuple) and value:
        inner = ", ".join(literal(item) for item in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{comma})"
    return repr(value)


def renewed(file: PythonFile, text: str | None) -> PythonFile:
    """The file after an edit; unchanged where the edit did not apply."""
    return file if text is None else PythonFile(file.path, text)


def rewritten(file: PythonFile, name: str, source: str) -> PythonFile:
    """The file with another function of that name; what nothing uses any more goes."""
    edited = renewed(file, file.with_function(name, source))
    for function in file.functions():
        if function.name != name and edited.uses(function.name) == 0 < file.uses(function.name):
            edited = renewed(edited, edited.without_function(function.name))
    return edited


def parses(path: str, text: str) -> bool:
    """Whether an edited file is still Python or TOML, judged by its name."""
    try:
        if path.endswith(".py"):
            parse_python(text)
        elif path.endswith(".toml"):
            import tomllib

            tomllib.loads(text)
    except (SyntaxError, ValueError):
        return False
    return True
