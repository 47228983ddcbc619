"""Small edits that turn sound Python into faulty Python, one at a time.

Promises: an edit touches the characters it must and no others (comments and layout stay), lies
inside a function, and leaves source that parses to another tree. What it does to behaviour is for
the tests to say.

Does not cover: faults of several lines, of design, of concurrency; edits inside f-strings,
decorators, annotations and docstrings; files with carriage returns.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from meta_agent.domains.tasks._swaps import (
    ARITHMETIC,
    COMPARISONS,
    EXCEPTIONS,
    LOGIC,
    SIBLINGS,
    TYPE_CHECKS,
)
from meta_agent.parsing.syntax import parse_python

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_GUARD_LINES = 5
_Edit = tuple[str, int, int, str]  # operator, start, end, replacement


@dataclass(frozen=True, slots=True)
class Mutation:
    """One edit of one file. `function` is the outermost function or method around it."""

    operator: str
    path: str
    function: str
    def_line: int  # where the innermost function's code begins, as its code object says
    start: int
    end: int
    replacement: bytes

    @property
    def topic(self) -> str:
        """What a task about it is about."""
        return f"{self.path}:{self.function}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement + source[self.end :]


def mutations(path: str, source: bytes) -> list[Mutation]:
    """Every edit that the operators know for a file; none where it cannot be read."""
    if b"\r" in source or b"\f" in source:
        return []
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError):
        return []
    place = _Place(path, _Text(source))
    return [found for node in tree.body for found in place.walk(node)]


def changes_tree(before: bytes, after: bytes) -> bool:
    """Whether the edited source parses, to something else."""
    try:
        return ast.dump(parse_python(after)) != ast.dump(parse_python(before))
    except (SyntaxError, ValueError):
        return False


class _Text:
    """Source with the positions of its nodes as offsets."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined, no-any-return]

    def end(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined, no-any-return]

    def of(self, node: ast.AST) -> str:
        return self.between(self.start(node), self.end(node))

    def between(self, start: int, end: int) -> str:
        return self.source[start:end].decode("utf-8", "replace")

    def line_span(self, node: ast.AST) -> tuple[int, int]:
        """The whole lines of a statement."""
        return self._starts[node.lineno - 1], self._starts[node.end_lineno]  # type: ignore[attr-defined]

    def owns_lines(self, node: ast.AST) -> bool:
        """Whether nothing but a comment shares the statement's lines."""
        first, last = self.line_span(node)
        tail = self.between(self.end(node), last).strip()
        return not self.between(first, self.start(node)).strip() and tail[:1] in ("", "#")


class _Place:
    """A walk that knows which function it is in."""

    def __init__(
        self, path: str, text: _Text, names: tuple[str, ...] = (), function: ast.AST | None = None
    ) -> None:
        self._path, self._text, self._names, self._function = path, text, names, function
        self._outer = ""

    def walk(self, node: ast.AST) -> Iterator[Mutation]:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from self._scope(node)
            return
        if isinstance(node, ast.JoinedStr) or _is_type_checking(node):
            return
        if self._function is not None:
            yield from self._edits(node)
        for child in _children(node):
            yield from self.walk(child)

    def _scope(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> Iterator[Mutation]:
        is_function = isinstance(node, _FUNCTIONS)
        inner = _Place(
            self._path, self._text, (*self._names, node.name), node if is_function else None
        )
        inner._outer = self._outer or (".".join(inner._names) if is_function else "")
        if is_function:
            yield from inner._made(_defaults(self._text, node))
            yield from inner._made(_blocks(self._text, node.body))
        for child in node.body:
            if not _is_docstring(child):
                yield from inner.walk(child)

    def _edits(self, node: ast.AST) -> Iterator[Mutation]:
        for operator in _OPERATORS:
            yield from self._made(operator(self._text, node))
        if isinstance(node, ast.Name):
            yield from self._made(_wrong_variable(self._text, node, self._parameters()))
        for block in _bodies(node):
            yield from self._made(_blocks(self._text, block))

    def _made(self, edits: Iterator[_Edit]) -> Iterator[Mutation]:
        for operator, start, end, text in edits:
            yield Mutation(
                *(operator, self._path, self._outer, _first_line(self._function)),
                *(start, end, text.encode()),
            )

    def _parameters(self) -> list[str]:
        arguments = self._function.args  # type: ignore[union-attr]
        found = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        return [name for name in found if name not in ("self", "cls")]


def _first_line(function: ast.AST | None) -> int:
    """The line that the function's code object states: that of its first decorator, if any."""
    assert isinstance(function, _FUNCTIONS)
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield item


def _bodies(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


# --- operators: (text, node) -> edits ------------------------------------------------------------


_GAP = re.compile(r"[\s)\\]*(.*?)[\s(\\]*", re.DOTALL)


def _between(text: _Text, left: ast.AST, right: ast.AST) -> tuple[int, int, str]:
    """The operator between two operands, whatever brackets stand around them."""
    start = text.end(left)
    found = _GAP.fullmatch(text.between(start, text.start(right)))
    assert found is not None
    return start + found.start(1), start + found.end(1), found[1]


def _comparison(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if not isinstance(node, ast.Compare):
        return
    for left, right in pairwise([node.left, *node.comparators]):
        start, end, word = _between(text, left, right)
        if word in COMPARISONS:
            name = "boundary" if word[0] in "<>" else "negated_comparison"
            yield name, start, end, COMPARISONS[word]


def _operator(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.BinOp) and not _is_text(node.left):
        start, end, word = _between(text, node.left, node.right)
        if word in ARITHMETIC:
            yield "wrong_operator", start, end, ARITHMETIC[word]
    if isinstance(node, ast.BoolOp):
        for left, right in pairwise(node.values):
            start, end, word = _between(text, left, right)
            if word in LOGIC:
                yield "and_or", start, end, LOGIC[word]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def _constant(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.Constant):
        for value in _wrong_values(text.of(node), node.value):
            name = "wrong_constant" if isinstance(node.value, bool) else "off_by_one"
            yield name, text.start(node), text.end(node), value


def _wrong_values(written: str, value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int) and written == str(value):
        yield str(value + 1)
        if value > 0:
            yield str(value - 1)


def _defaults(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    arguments = node.args  # type: ignore[attr-defined]
    for value in (*arguments.defaults, *arguments.kw_defaults):
        if isinstance(value, ast.Constant):
            for wrong in _wrong_values(text.of(value), value.value):
                yield "wrong_default", text.start(value), text.end(value), wrong


def _call(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args):
        return
    if len(node.args) > 1 and ast.unparse(node.func) not in TYPE_CHECKS:
        yield from _swapped(text, node.args[0], node.args[1])
    before = [*node.args, *(one.value for one in node.keywords[:-1])]
    if node.keywords and before and node.keywords[-1].arg:
        last = max(before, key=text.end)
        if text.of(node.keywords[-1]).startswith(f"{node.keywords[-1].arg}="):
            yield "dropped_argument", text.end(last), text.end(node.keywords[-1]), ""


def _swapped(text: _Text, one: ast.AST, other: ast.AST) -> Iterator[_Edit]:
    first, second = text.of(one), text.of(other)
    gap = text.between(text.end(one), text.start(other))
    if first != second and gap.strip() == ",":
        yield "swapped_arguments", text.start(one), text.end(other), f"{second}{gap}{first}"


def _sibling(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    if name in SIBLINGS:
        end = text.end(node.func)
        yield "sibling_call", end - len(name), end, SIBLINGS[name]


def _condition(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if not isinstance(node, (ast.If, ast.IfExp)):
        return
    test = node.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield "inverted_condition", text.start(test), text.end(test), text.of(test.operand)
    elif isinstance(test, (ast.Name, ast.Attribute, ast.Call)):
        yield "inverted_condition", text.start(test), text.start(test), "not "


def _sign(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", text.start(node), text.start(node.operand), ""


def _exception(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    kind: ast.AST | None = None
    if isinstance(node, ast.Raise):
        kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    elif isinstance(node, ast.ExceptHandler):
        kind = node.type
    if isinstance(kind, ast.Name) and kind.id in EXCEPTIONS:
        yield "exception_type", text.start(kind), text.end(kind), EXCEPTIONS[kind.id]


def _loop(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.Continue):
        yield "loop_control", text.start(node), text.end(node), "break"
    if isinstance(node, ast.Break):
        yield "loop_control", text.start(node), text.end(node), "continue"
    if isinstance(node, ast.For) and isinstance(node.body[-1], _SIMPLE):
        last = node.body[-1]
        if text.owns_lines(last):
            indent = " " * last.col_offset
            end = text.line_span(last)[1]
            yield "early_exit", end, end, f"{indent}break\n"


_OPERATORS: tuple[Callable[[_Text, ast.AST], Iterator[_Edit]], ...] = (
    _comparison,
    _operator,
    _constant,
    _call,
    _sibling,
    _condition,
    _sign,
    _exception,
    _loop,
)


def _wrong_variable(text: _Text, node: ast.Name, names: list[str]) -> Iterator[_Edit]:
    if isinstance(node.ctx, ast.Load) and node.id in names and len(names) > 1:
        other = names[(names.index(node.id) + 1) % len(names)]
        yield "wrong_variable", text.start(node), text.end(node), other


def _blocks(text: _Text, block: Sequence[ast.stmt]) -> Iterator[_Edit]:
    """Statements that a block can lose and still be one."""
    for node in block:
        if len(block) - _is_docstring(block[0]) < 2 or not text.owns_lines(node):
            continue
        if isinstance(node, ast.If) and not node.orelse and _is_short(node):
            yield "dropped_branch", *text.line_span(node), ""
        elif _has_effect(node):
            yield "dropped_statement", *text.line_span(node), ""


def _is_short(node: ast.If) -> bool:
    return (node.end_lineno or 0) - node.lineno < _MAX_GUARD_LINES


def _has_effect(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return all(isinstance(one, (ast.Attribute, ast.Subscript)) for one in node.targets)
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call or isinstance(node, ast.AugAssign)
