"""Edits to real source text: find a node by its syntax and change only it. Nothing is run.

Promises: comments, spacing and everything that is not named stay as they are. Code that does not
have the expected shape is left alone: an edit of it returns the same file. Of two edits that
overlap, the outer one counts. A block that would be empty gets a `pass`.

Does not cover: names built at run time, or a constant that is assigned twice.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from meta_agent.core.parsing.syntax import literal_value, parse_python

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Constant:
    """A module-level constant of a Python file, assigned as `NAME = literal`."""

    path: str
    name: str
    value: Any


@dataclass(frozen=True)
class PythonFile:
    """One Python file of a harness, with methods that return edited copies."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return parse_python(self.text)
        except (SyntaxError, ValueError):
            return ast.Module(body=[], type_ignores=[])

    # --- what the file holds --------------------------------------------------------------------

    @cached_property
    def assignments(self) -> dict[str, ast.expr]:
        """Returns the syntax node of the value that each module-level name is assigned."""
        values: dict[str, ast.expr] = {}
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    values[name] = value
        return values

    def constants(self) -> Iterator[Constant]:
        for name, node in self.assignments.items():
            try:
                yield Constant(self.path, name, literal_value(node))
            except (ValueError, TypeError, SyntaxError):
                continue

    def dict_node(self, name: str) -> ast.Dict | None:
        """Returns the dict display `{...}` assigned to the module-level `name`, or None."""
        node = self.assignments.get(name)
        return node if isinstance(node, ast.Dict) else None

    def functions(self) -> list[Function]:
        return [node for node in self.tree.body if isinstance(node, Function)]

    def function(self, name: str) -> Function | None:
        return next((f for f in self.functions() if f.name == name), None)

    def uses(self, name: str) -> int:
        """Returns how many times the file reads the variable or function `name`."""
        names = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name))
        return sum(node.id == name and isinstance(node.ctx, ast.Load) for node in names)

    # --- edits ----------------------------------------------------------------------------------

    def with_text(self, text: str) -> PythonFile:
        return PythonFile(self.path, text)

    def with_constant(self, name: str, value: Any) -> PythonFile:
        """Returns the file with a new value of the module-level `name`, if there is such a name."""
        node = self.assignments.get(name)
        return self if node is None else self.cut(*self.span(node), literal(value))

    def with_entry(self, name: str, key: str, value: str) -> PythonFile:
        """Returns the file with source `value` at `key` of dict `name`, if there is such a dict."""
        node = self.dict_node(name)
        if node is None:
            return self
        for at, old in zip(node.keys, node.values, strict=True):
            if isinstance(at, ast.Constant) and at.value == key:
                return self.cut(*self.span(old), value)
        entry = f"{literal(key)}: {value}"
        if not node.values:
            return self.cut(*self.span(node), f"{{{entry}}}")
        end = self.span(node.values[-1])[1]
        return self.cut(end, end, f", {entry}")

    def without_entry(self, name: str, key: str) -> PythonFile:
        """Returns the file less a dict's `key`; unchanged if it is absent or a key is computed."""
        node = self.dict_node(name)
        keys = [] if node is None else [k.value for k in node.keys if isinstance(k, ast.Constant)]
        if node is None or len(keys) != len(node.keys) or key not in keys:
            return self
        at = keys.index(key)
        if len(keys) == 1:
            return self.cut(*self.span(node), "{}")
        starts = [self.span(key_node)[0] for key_node in node.keys if key_node]
        ends = [self.span(value)[1] for value in node.values]
        return self.cut(starts[0], starts[1]) if at == 0 else self.cut(ends[at - 1], ends[at])

    def without_function(self, name: str) -> PythonFile:
        """Returns the file less a module-level function; unchanged if it has no such function."""
        node = self.function(name)
        if node is None:
            return self
        lines = self._raw.splitlines(keepends=True)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
        last = node.end_lineno or node.lineno
        while last < len(lines) and not lines[last].strip():
            last += 1
        return self.with_text(b"".join(lines[:first] + lines[last:]).decode())

    def with_block(self, line: int, block: str) -> PythonFile:
        """Returns the file with the text `block` above line number `line`, counted from 1."""
        lines = self.text.splitlines(keepends=True)
        return self.with_text("".join([*lines[: line - 1], block, *lines[line - 1 :]]))

    def with_end(self, block: str) -> PythonFile:
        """Returns the file with the text `block` added at its end."""
        return self.with_text(f"{self.text.rstrip()}\n\n\n{block.strip()}\n")

    # --- places, in bytes -----------------------------------------------------------------------

    def source_of(self, node: ast.AST) -> str:
        """Returns the source text of a syntax node, or "" if the node has no position."""
        if getattr(node, "end_lineno", None) is None:
            return ""
        start, end = self.span(node)
        return self._raw[start:end].decode("utf-8", "replace")

    def span(self, node: Any) -> tuple[int, int]:
        """Returns the offsets, in bytes of UTF-8, at which a syntax node begins and ends."""
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def cut(self, start: int, end: int, put: str = "") -> PythonFile:
        return self.with_text((self._raw[:start] + put.encode() + self._raw[end:]).decode())

    @cached_property
    def _raw(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(map(len, self._raw.splitlines(keepends=True)))]


class Surgery:
    """Collects edits of a Python file; `text` is the file's text with all of them."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.edits: dict[tuple[int, int], str] = {}
        self._removed: set[ast.stmt] = set()

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        nodes = ast.walk(self.file.tree)
        return {child: node for node in nodes for child in ast.iter_child_nodes(node)}

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yields the syntax nodes that enclose a node, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def functions(self) -> Iterator[Function]:
        """Yields every function of the file, methods and inner ones included."""
        yield from (node for node in ast.walk(self.file.tree) if isinstance(node, Function))

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """Returns the innermost statement that contains a syntax node, or the node if it is one."""
        return next(n for n in (node, *self.around(node)) if isinstance(n, ast.stmt))

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """Returns the list of statements (a body or a branch) that directly holds a statement."""
        blocks = [block for _, block in ast.iter_fields(self.parents[statement])]
        return next(block for block in blocks if isinstance(block, list) and statement in block)

    def precedes(self, first: ast.stmt, node: ast.AST) -> bool:
        """Returns True if `node` is in a later statement of the block that holds `first`."""
        block = self.block_of(first)
        for inner, _ in pairwise([node, *self.around(node)]):
            if inner in block:
                return block.index(first) < block.index(inner)
        return False

    def source(self, node: ast.AST) -> str:
        return self.file.source_of(node)

    def replace(self, node: ast.AST, text: str) -> None:
        if self.source(node) != text:
            self.edits[self.file.span(node)] = text

    def remove(self, statement: ast.stmt) -> None:
        self._removed.add(statement)

    def append(self, text: str, *, after: ast.stmt) -> None:
        _, end = self.file.span(after)
        self.edits[end, end] = f"\n{' ' * after.col_offset}{text}"

    @property
    def text(self) -> str:
        edits = {**self.edits, **self._removals()}
        raw, parts, at = self.file.text.encode(), [], 0
        for (start, end), put in sorted(edits.items(), key=lambda e: (e[0][0], -e[0][1])):
            if start >= at:  # else it lies inside of what an outer edit replaced
                parts += [raw[at:start], put.encode()]
                at = end
        return b"".join([*parts, raw[at:]]).decode()

    def _removals(self) -> dict[tuple[int, int], str]:
        edits = {}
        for statement in self._removed:
            block = self.block_of(statement)
            start, end = self.file.span(statement)
            if all(other in self._removed for other in block):
                edits[start, end] = "pass" if statement is block[0] else ""
            else:
                edits[self._whole_lines(start, end)] = ""
        return edits

    def _whole_lines(self, start: int, end: int) -> tuple[int, int]:
        raw = self.file.text.encode()
        line, stop = raw.rfind(b"\n", 0, start) + 1, raw.find(b"\n", end)
        alone = not raw[line:start].strip() and stop >= 0
        return (line, stop + 1) if alone else (start, end)


def literal(value: Any) -> str:
    """Returns Python source for a value, with double quotes as formatters write it."""
    if isinstance(value, str):
        plain = value.isprintable() and '"' not in value and "\\" not in value
        return f'"{value}"' if plain else repr(value)
    if isinstance(value, list | tuple) and value:
        inner = ", ".join(literal(part) for part in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{comma})"
    return repr(value)


def parses(path: str, text: str) -> bool:
    """Returns False if the new text of a `.py` or `.toml` file does not parse, else True."""
    try:
        if path.endswith(".py"):
            parse_python(text)
        elif path.endswith(".toml"):
            tomllib.loads(text)
    except (SyntaxError, ValueError):
        return False
    return True
