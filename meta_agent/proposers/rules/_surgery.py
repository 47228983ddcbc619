"""Several edits of one Python file at once, by syntax; what is not named stays as it is.

Promises: edits are made of whole nodes and whole statements; a block that would be empty gets a
`pass`; of two edits that overlap the outer one counts. Nothing is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from meta_agent.proposers.rules._source import PythonFile

_BLOCKS = ("body", "orelse", "finalbody")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Surgery:
    """Collects edits of a file; `text` is the result, or None where nothing changed."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.edits: dict[tuple[int, int], str] = {}
        self._removed: set[ast.stmt] = set()

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {
            child: node for node in ast.walk(self.file.tree) for child in ast.iter_child_nodes(node)
        }

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside out."""
        while (node := self.parents.get(node, node)) in self.parents or node is self.file.tree:
            yield node
            if node is self.file.tree:
                return

    def functions(self) -> Iterator[Function]:
        """Every function of the file, methods and inner ones included."""
        for node in ast.walk(self.file.tree):
            if isinstance(node, Function):
                yield node

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds a node."""
        return next(n for n in (node, *self.around(node)) if isinstance(n, ast.stmt))

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        parent = self.parents[statement]
        blocks = [getattr(parent, name, None) for name in (*_BLOCKS, "handlers")]
        return next(block for block in blocks if isinstance(block, list) and statement in block)

    def source(self, node: ast.AST) -> str:
        return self.file.source_of(node)

    # --- edits ----------------------------------------------------------------------------------

    def replace(self, node: ast.AST, text: str) -> None:
        if self.source(node) != text:
            start, end = self.file.span(node)
            self.edits[start, end] = text

    def remove(self, statement: ast.stmt) -> None:
        self._removed.add(statement)

    def unguard(self, guard: ast.If) -> None:
        indent = " " * guard.col_offset
        inner = [self._indented(each, indent) for each in guard.body]
        self.replace(guard, "\n".join(inner).lstrip())

    def _indented(self, statement: ast.stmt, indent: str) -> str:
        lines = self.source(statement).split("\n")
        cut = statement.col_offset - len(indent)
        return "\n".join([indent + lines[0], *(each[cut:] for each in lines[1:])])

    def insert(self, text: str, *, before: ast.stmt) -> None:
        start, _ = self.file.span(before)
        known = self.edits.get((start, start), "")
        self.edits[start, start] = f"{known}{text}\n{' ' * before.col_offset}"

    def append(self, text: str, *, after: ast.stmt) -> None:
        _, end = self.file.span(after)
        self.edits[end, end] = f"\n{' ' * after.col_offset}{text}"

    @property
    def text(self) -> str | None:
        edits = {**self.edits, **self._removals()}
        if not edits:
            return None
        raw = self.file.text.encode()
        parts, at = [], 0
        for (start, end), put in sorted(edits.items(), key=lambda e: (e[0][0], -e[0][1])):
            if start < at:
                continue  # inside of what an outer edit replaced
            parts += [raw[at:start], put.encode()]
            at = end
        return b"".join([*parts, raw[at:]]).decode()

    def _removals(self) -> dict[tuple[int, int], str]:
        found = {}
        for statement in self._removed:
            block = self.block_of(statement)
            start, end = self.file.span(statement)
            if all(other in self._removed for other in block):
                found[start, end] = "pass" if statement is block[0] else ""
            else:
                found[self._whole_lines(start, end)] = ""
        return found

    def _whole_lines(self, start: int, end: int) -> tuple[int, int]:
        raw = self.file.text.encode()
        line = raw.rfind(b"\n", 0, start) + 1
        stop = raw.find(b"\n", end)
        alone = not raw[line:start].strip() and stop >= 0
        return (line, stop + 1) if alone else (start, end)


def precedes(surgery: Surgery, first: ast.stmt, node: ast.AST) -> bool:
    """Whether a statement is always carried out before what a node stands in, in one function."""
    block = surgery.block_of(first)
    for inner, _ in pairwise([node, *surgery.around(node)]):
        if inner in block:
            return block.index(first) < block.index(inner)
    return False
