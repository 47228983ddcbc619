"""Small edits of a Python file, one at a time (mutants).

Mutation testing makes such edits to see whether tests notice. Here they repair: a scaffold that
changes words by mistake has a mutant that does not.

The edits leave out a statement, a guard, a condition of several or a keyword argument. They replace
an expression by what it is made from. They turn comparisons and truth values, swap neighbours, take
the last for the first, and change the blanks and the case of texts.

Promises: each mutant parses and differs from the file; the order is the file's; nothing is run.
Not covered: limits (other rules measure those), edits of two places, and code from elsewhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from meta_agent.proposers.rules._source import Function, PythonFile, Surgery, literal, parses

_MAY_GO: Final = (
    *(ast.Expr, ast.Assign, ast.AugAssign, ast.If, ast.Return, ast.Break, ast.Continue),
)
_OTHER_SIGN: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
}  # fmt: skip


class Mutant(NamedTuple):
    """A harness file with one small edit (a mutant): its new text, the line and the edit."""

    path: str
    text: str
    line: int
    before: str
    after: str  # empty: left out


def mutants(file: PythonFile) -> Iterator[Mutant]:
    """Yields copies of a file with one small edit each, leaving out those that do not parse."""
    texts, whole = {file.text}, Surgery(file)
    for node in _in_order(file.tree):
        edits = [(after, Surgery(file)) for after in _instead(whole, node)]
        for after, edit in edits:
            edit.replace(node, after)
        if isinstance(node, _MAY_GO) and any(isinstance(n, Function) for n in whole.around(node)):
            edits.append(("", Surgery(file)))
            edits[-1][1].remove(node)
        for after, edit in edits:
            text = edit.text
            if text not in texts and parses(file.path, text):
                texts.add(text)
                yield Mutant(file.path, text, node.lineno, whole.source(node), after)


def _in_order(tree: ast.Module) -> list[ast.expr | ast.stmt]:
    """Returns the syntax nodes that may change, in the order of the file.

    Docstrings stay, and so do names of fields, which others read. The parts of an f-string have no
    place of their own.
    """
    fixed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            fixed |= {part for part in ast.walk(node) if part is not node}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            fixed |= {node, node.value}
        elif isinstance(node, ast.Dict):
            fixed |= {key for key in node.keys if key is not None}
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            fixed.add(node.slice)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]
    nodes = [node for node in nodes if node not in fixed]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def _instead(s: Surgery, node: ast.AST) -> Iterator[str]:
    """Yields the source texts that may replace a node."""
    match node:
        case ast.If(orelse=[]):
            edit = Surgery(s.file)
            edit.unguard(node)
            yield edit.edits[s.file.span(node)]
        case ast.IfExp():
            yield from (s.source(node.body), s.source(node.orelse))
        case ast.BoolOp():
            word = " and " if isinstance(node.op, ast.And) else " or "
            for left_out in node.values:
                yield word.join(f"({s.source(v)})" for v in node.values if v is not left_out)
        case ast.UnaryOp(op=ast.Not()):
            yield s.source(node.operand)
        case ast.Compare(ops=[op]) if type(op) in _OTHER_SIGN:
            sides = s.source(node.left), s.source(node.comparators[0])
            yield f"{sides[0]} {_OTHER_SIGN[type(op)]} {sides[1]}"
        case ast.Call():
            yield from _less_done(s, node)
        case ast.Subscript():
            yield from _elsewhere(s, node)
        case ast.BinOp(op=ast.Add()):
            left, right = s.source(node.left), s.source(node.right)
            yield from (left, right, f"{right} + {left}")
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()):
            yield from _swapped(s, node, node.elts)
        case ast.JoinedStr():
            yield from _other_texts(node)
        case ast.Constant(value=bool(value)):
            yield repr(not value)
        case ast.Constant(value=str(value)):
            yield from map(literal, _variants(value))


def _less_done(s: Surgery, node: ast.Call) -> Iterator[str]:
    if not isinstance(s.parents[node], ast.Await):
        yield from _inside(s, node)
    yield from _swapped(s, node, node.args)
    parts = [*node.args, *node.keywords]
    for keyword in node.keywords:
        rest = ", ".join(s.source(part) for part in parts if part is not keyword)
        yield f"{s.source(node.func)}({rest})"


def _inside(s: Surgery, node: ast.expr) -> Iterator[str]:
    """Yields what an expression is made from, step by step: `a`, of `a.split("-")[0]`."""
    inner: ast.expr | None = None
    match node:
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
            pass
        case ast.Call(args=[inner, *_]):
            pass
    if inner is not None:
        yield s.source(inner)
        yield from _inside(s, inner)


def _elsewhere(s: Surgery, node: ast.Subscript) -> Iterator[str]:
    if isinstance(node.ctx, ast.Load):
        yield from _inside(s, node)
    place = s.source(node.slice)
    if place in ("0", "-1"):
        yield f"{s.source(node.value)}[{'-1' if place == '0' else '0'}]"


def _swapped(s: Surgery, node: ast.expr, parts: list[ast.expr]) -> Iterator[str]:
    text, (start, _) = s.source(node).encode(), s.file.span(node)
    for first, second in pairwise(parts):
        a, b, c, d = (at - start for at in (*s.file.span(first), *s.file.span(second)))
        yield (text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]).decode()


def _other_texts(node: ast.JoinedStr) -> Iterator[str]:
    """Yields an f-string with its texts changed all at once, then with one part changed."""
    constants = [part for part in node.values if isinstance(part, ast.Constant)]
    for texts in zip(*(_variants(str(part.value)) for part in constants), strict=True):
        changed: dict[ast.expr, ast.expr] = dict(
            zip(constants, map(ast.Constant, texts), strict=True)
        )
        yield _joined([changed.get(v, v) for v in node.values])
    for at, part in enumerate(node.values):
        before, after = node.values[:at], node.values[at + 1 :]
        if isinstance(part, ast.Constant):
            for text in _variants(str(part.value)):
                yield _joined([*before, ast.Constant(text), *after])
        elif isinstance(part, ast.FormattedValue):
            yield _joined([*before, *after], empty=True)


def _joined(values: list[ast.expr], *, empty: bool = False) -> str:
    parts = [v for v in values if empty or not (isinstance(v, ast.Constant) and v.value == "")]
    return ast.unparse(ast.JoinedStr(parts))


def _variants(text: str) -> Iterator[str]:
    yield from (text.strip(), re.sub(r"\s+", "", text), re.sub(r"\s+", " ", text))
    yield from (re.sub(r"\s+(?=[^\w\s])", "", text), text.swapcase(), "")
