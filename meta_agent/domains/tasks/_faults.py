"""Small edits that plant a bug in a Python file, by a table of rules.

Promises: an edit lies inside a function, and nothing else of the file changes. Whether it changes
behaviour is for the tests to say.

Does not cover: bugs of several lines, of design or of concurrency, and edits inside f-strings,
decorators, annotations and docstrings.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from meta_agent.domains.tasks._source import Def, parsed

_MAX_BRANCH_LINES = 5
_BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
}
_CONVERSIONS = {  # by name, with the number of arguments
    **dict.fromkeys(("bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple"), 1),
    **{"min": 2, "max": 2},
}
_CLEANINGS = frozenset({"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "copy"})
_STANDS_ALONE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


@dataclass(frozen=True, slots=True)
class Fault:
    """An edit that plants a bug: `replacement` for the bytes `start` to `end` of a file."""

    rule: str
    path: str
    function: str
    def_line: int  # where the innermost function's code begins, as its code object says
    start: int
    end: int
    replacement: bytes

    @property
    def topic(self) -> str:
        """Returns `path:function`. Tasks with the same topic share a split."""
        return f"{self.path}:{self.function}"

    @property
    def key(self) -> str:
        """Returns a text that identifies the edit: its path, bytes, rule and replacement."""
        text = self.replacement.decode("utf-8", "replace")
        return f"{self.path}:{self.start}-{self.end}:{self.rule}:{text}"

    def applied(self, source: bytes) -> bytes:
        """Returns the file's source with the bug planted."""
        return source[: self.start] + self.replacement + source[self.end :]

    def fixed_lines(self, source: bytes) -> list[str]:
        """Returns the lines that a fix puts back: those of `source` that the buggy file lacks."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", max(self.end - 1, self.start))
        lines = source[first : last if last >= 0 else None].decode("utf-8", "replace").split("\n")
        remaining = set(self.applied(source).decode("utf-8", "replace").split("\n"))
        return [line for line in lines if line not in remaining]


def faults(path: str, source: bytes) -> list[Fault]:
    """Returns every fault that `RULES` can plant in a file; none if it cannot be parsed."""
    tree = parsed(source)
    if tree is None or b"\r" in source.replace(b"\r\n", b"\n"):  # a lone one ends a line for Python
        return []
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return list(_File(path, source, starts).walk(tree, (), None))


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    source: bytes
    starts: Sequence[int]  # of lines

    def walk(self, node: ast.AST, names: tuple[str, ...], function: Def | None) -> Iterator[Fault]:
        """Yields the edits below a syntax node. `names` are those of the scopes around the node."""
        if isinstance(node, (Def, ast.ClassDef)):
            names = names if function else (*names, node.name)
            function = node if isinstance(node, Def) else function
            children: Sequence[ast.AST] = node.body
        elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Expr) and _is_text(node)):
            return
        else:
            children = list(ast.iter_child_nodes(node))
        if function is not None:
            yield from (self._fault(names, function, *edit) for edit in self._edits(node))
        for child in children:
            if child is not getattr(node, "annotation", None):
                yield from self.walk(child, names, function)

    def _edits(self, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        for rule, replacements in RULES.items():
            for part, new in replacements(node):
                start = self.starts[part.lineno - 1] + part.col_offset
                end = self.starts[part.end_lineno - 1] + part.end_col_offset
                yield rule, start, end, ast.unparse(new)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            for statement in block if isinstance(block, list) and len(block) > 1 else ():
                if (rule := _lost(statement)) and self._owns_lines(statement):
                    first, last = statement.lineno, statement.end_lineno
                    yield rule, self.starts[first - 1], self.starts[last], ""

    def _owns_lines(self, node: ast.stmt) -> bool:
        first, last = self.starts[node.lineno - 1], self.starts[node.end_lineno or 0]
        text = self.source[first:last].strip().decode("utf-8", "replace")
        return text == (ast.get_source_segment(self.source.decode("utf-8", "replace"), node) or "")

    def _fault(
        self, names: tuple[str, ...], function: Def, rule: str, start: int, end: int, text: str
    ) -> Fault:
        line = min([function.lineno, *(node.lineno for node in function.decorator_list)])
        return Fault(rule, self.path, ".".join(names), line, start, end, text.encode())


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant)


def _lost(node: ast.stmt) -> str:
    """Returns the rule by which a block can lose a statement; empty if it cannot."""
    if isinstance(node, ast.If) and not node.orelse:
        short = (node.end_lineno or 0) - node.lineno < _MAX_BRANCH_LINES
        return "lost_branch" if short else ""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    targets = node.targets if isinstance(node, ast.Assign) else []
    stores = targets and all(isinstance(t, (ast.Attribute, ast.Subscript)) for t in targets)
    return "lost_statement" if is_call or stores else ""


# --- rules: each yields parts of a node, and what replaces them -----------------------------------
# Most bugs that people fix are a condition, a conversion or an argument that nobody thought of. So
# most rules take one away. No rule inverts what a function does: such a bug is found at once.

Replacements = Iterator[tuple[Any, ast.AST]]


def _boundary(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _BOUNDS and len(node.ops) == 1:
        yield node, ast.Compare(node.left, [_BOUNDS[type(node.ops[0])]()], node.comparators)


def _off_by_one(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from [(node, node.left)] if ast.unparse(node.right) == "1" else []


def _lost_condition(node: ast.AST) -> Replacements:
    """Takes one part out of `a and b` or `a or b`."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            rest = [other for other in node.values if other is not value]
            yield node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _lost_part(node: ast.AST) -> Replacements:
    """Turns `str(x)`, `x.strip()`, `min(x, 7)` or `x if c else 7` into `x`."""
    parts: Sequence[ast.AST] = ()
    if isinstance(node, ast.Call) and not node.keywords:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if len(node.args) == _CONVERSIONS.get(name):
            parts = node.args
        elif name in _CLEANINGS and isinstance(node.func, ast.Attribute) and not node.args:
            parts = [node.func.value]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    yield from ((node, part) for part in parts if isinstance(part, _STANDS_ALONE))


def _lost_argument(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg:
        yield node, ast.Call(node.func, node.args, node.keywords[:-1])


RULES: dict[str, Callable[[ast.AST], Replacements]] = {
    "boundary": _boundary,
    "off_by_one": _off_by_one,
    "lost_condition": _lost_condition,
    "lost_part": _lost_part,
    "lost_argument": _lost_argument,
}
