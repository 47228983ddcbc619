"""The neighbourhood of a program: each small edit of a Python file, one at a time.

Mutation testing plants such edits to see whether tests notice. Here they are read backwards: where
a scaffold does something to words that it should not, one of its neighbours does not do it.

Operators: a statement of a function left out; a guard left out; an expression replaced by what it
is made from (the receiver or first argument of a call, the whole of a part, a summand, a branch of
a conditional, a negation's operand); a condition left out of several, a comparison turned or moved
by one; two arguments, summands or elements swapped; first for last; a keyword argument left out; a
truth value turned; a text without its blanks or some of them, in the other case, or left out.

Promises: each mutant parses and differs from the file; the order is the file's; nothing is run.
Not covered: limits (other rules measure those), edits of two places, and code from elsewhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from meta_agent.proposers.rules._source import PythonFile, literal, parses
from meta_agent.proposers.rules._surgery import Function, Surgery


class Mutant(NamedTuple):
    """A file with one small edit, and the line and words of it."""

    path: str
    text: str
    line: int
    before: str
    after: str  # empty: left out


def mutants(file: PythonFile) -> Iterator[Mutant]:
    """Every neighbour of a file once."""
    seen = {file.text}
    whole = Surgery(file)
    for node in _in_order(file.tree):
        for after in _instead(whole, node):
            edit = Surgery(file)
            edit.replace(node, after)
            yield from _once(edit, node, after, seen)
        if isinstance(node, ast.stmt) and _may_go(whole, node):
            edit = Surgery(file)
            edit.remove(node)
            yield from _once(edit, node, "", seen)


def _once(edit: Surgery, node: ast.AST, after: str, seen: set[str]) -> Iterator[Mutant]:
    text = edit.text
    if text is not None and text not in seen and parses(edit.file.path, text):
        seen.add(text)
        line = getattr(node, "lineno", 0)
        yield Mutant(edit.file.path, text, line, edit.source(node), after)


def _in_order(tree: ast.Module) -> list[ast.expr | ast.stmt]:
    """What may change, as it stands in the file: not names of fields, which others read, and
    not the parts of an f-string, which have no place of their own.
    """
    inner: set[ast.AST] = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner |= {node, node.value}  # a docstring
        elif isinstance(node, ast.Dict):
            inner |= {key for key in node.keys if key is not None}
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            inner.add(node.slice)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]
    found = [node for node in nodes if node not in inner]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _may_go(s: Surgery, node: ast.stmt) -> bool:
    inside = any(isinstance(outer, Function) for outer in s.around(node))
    kinds = ast.Expr | ast.Assign | ast.AugAssign | ast.If | ast.Return | ast.Break | ast.Continue
    return inside and isinstance(node, kinds)


def _instead(s: Surgery, node: ast.AST) -> Iterator[str]:
    """What may stand in a node's place."""
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
        case ast.Compare(ops=[op]):
            yield from _other_bound(s, node, op)
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


def _other_bound(s: Surgery, node: ast.Compare, op: ast.cmpop) -> Iterator[str]:
    others = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
    if type(op) in others:
        yield f"{s.source(node.left)} {others[type(op)]} {s.source(node.comparators[0])}"


def _less_done(s: Surgery, node: ast.Call) -> Iterator[str]:
    if not isinstance(s.parents[node], ast.Await):
        yield from _inside(s, node)
    yield from _swapped(s, node, node.args)
    parts = [*node.args, *node.keywords]
    for keyword in node.keywords:
        kept = ", ".join(s.source(part) for part in parts if part is not keyword)
        yield f"{s.source(node.func)}({kept})"


def _inside(s: Surgery, node: ast.expr) -> Iterator[str]:
    """What an expression was made from, and what that was made from: `a`, of `a.split("-")[0]`."""
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
    of = s.source(node.value)
    if isinstance(node.ctx, ast.Load):
        yield from _inside(s, node)
    if isinstance(node.slice, ast.Constant) and node.slice.value == 0:
        yield f"{of}[-1]"
    elif s.source(node.slice) == "-1":
        yield f"{of}[0]"


def _swapped(s: Surgery, node: ast.expr, parts: list[ast.expr]) -> Iterator[str]:
    text, (start, _) = s.source(node).encode(), s.file.span(node)
    for one, other in pairwise(parts):
        (a, b), (c, d) = s.file.span(one), s.file.span(other)
        a, b, c, d = (at - start for at in (a, b, c, d))
        yield (text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]).decode()


def _other_texts(node: ast.JoinedStr) -> Iterator[str]:
    constants = [part for part in node.values if isinstance(part, ast.Constant)]
    for said in zip(*(_variants(str(part.value)) for part in constants), strict=True):
        changed = dict(zip(constants, said, strict=True))
        values = [ast.Constant(changed[v]) if v in changed else v for v in node.values]
        yield ast.unparse(ast.JoinedStr([value for value in values if _says(value)]))
    for at, part in enumerate(node.values):
        if isinstance(part, ast.Constant):
            for value in _variants(str(part.value)):
                values = [*node.values[:at], ast.Constant(value), *node.values[at + 1 :]]
                yield ast.unparse(ast.JoinedStr([v for v in values if _says(v)]))
        elif isinstance(part, ast.FormattedValue):
            yield ast.unparse(ast.JoinedStr([*node.values[:at], *node.values[at + 1 :]]))


def _says(part: ast.expr) -> bool:
    return not (isinstance(part, ast.Constant) and part.value == "")


def _variants(text: str) -> Iterator[str]:
    yield from (text.strip(), re.sub(r"\s+", "", text), re.sub(r"\s+", " ", text))
    yield from (re.sub(r"\s+(?=[^\w\s])", "", text), text.swapcase(), "")
