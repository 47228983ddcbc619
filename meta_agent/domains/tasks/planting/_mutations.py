"""Small edits that turn sound Python into faulty Python, one at a time.

Promises: an edit touches the characters it must and no others (layout stays, and so do comments but
for those above a statement that goes), and lies inside a function. Of things that stand three times
in a row alike none is edited: nobody gets one of them wrong. What an edit does to behaviour is for
the tests to say.

Does not cover: faults of several lines, of design, of concurrency; edits inside f-strings, lambdas,
decorators, annotations and docstrings; files with carriage returns.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from meta_agent.core.parsing.syntax import parse_python

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_GUARD_LINES = 5
_IN_A_ROW = 3
_VARYING = re.compile(r"id='\w+'|value=(?:'(?:[^'\\]|\\.)*'|[\w.]+)")
_Node = TypeVar("_Node", bound=ast.AST)
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

    @property
    def key(self) -> str:
        """Names an edit by what it does to which bytes."""
        return (
            f"{self.path}:{self.start}-{self.end}:{self.operator}:"
            f"{self.replacement.decode('utf-8', 'replace')}"
        )

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

    def commented_span(self, node: ast.AST) -> tuple[int, int]:
        """The same, with the comment right above, and one of two empty lines that would meet."""
        first, last = self.line_span(node)
        indent = node.col_offset  # type: ignore[attr-defined]
        for line in reversed(self.source[:first].split(b"\n")[:-1]):
            if line[:indent].strip() or line[indent : indent + 1] != b"#":
                break
            first -= len(line) + 1
        meet = self.source[:first].endswith(b"\n\n") and self.source[last:].startswith(b"\n")
        return first, last + meet

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
        if isinstance(node, (ast.JoinedStr, ast.Lambda)) or _is_type_checking(node):
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
            yield from inner._made(_blocks(self._text, node.body))
        for child in node.body:
            if not _is_docstring(child):
                yield from inner.walk(child)

    def _edits(self, node: ast.AST) -> Iterator[Mutation]:
        for operator in (*_OPERATORS, _branches):
            yield from self._made(operator(self._text, node))
        for block in _bodies(node):
            yield from self._made(_blocks(self._text, block))

    def _made(self, edits: Iterator[_Edit]) -> Iterator[Mutation]:
        for operator, start, end, text in edits:
            yield Mutation(
                *(operator, self._path, self._outer, _first_line(self._function)),
                *(start, end, text.encode()),
            )


def _first_line(function: ast.AST | None) -> int:
    """The line that the function's code object states: that of its first decorator, if any."""
    assert isinstance(function, _FUNCTIONS)
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        yield from _singular([one for one in _list(value) if isinstance(one, ast.AST)])


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _singular(nodes: Sequence[_Node]) -> list[_Node]:
    """Those that are not three or more of one shape."""
    shapes = Counter(map(_shape, nodes))
    return [one for one in nodes if shapes[_shape(one)] < _IN_A_ROW or _is_plain(one)]


def _shape(node: ast.AST) -> str:
    """What stays of a node where only names and constants differ; whom it calls stays."""
    calls = [ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
    return f"{calls} {_VARYING.sub('', ast.dump(node))}"


def _is_plain(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Constant))


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
# What people mend is mostly something that nobody had thought of: a case, a condition, a
# conversion, an argument. So most operators take one away; the others move a bound by one or swap
# two names. None inverts what a function does: that is found before anybody is told of it.


def _gives_its_own_type(kind: Callable[[], object], method: str) -> bool:
    try:
        return type(getattr(kind(), method)()) is kind
    except (TypeError, KeyError, IndexError, ValueError):
        return False


_GAP = re.compile(r"[\s)\\]*(.*?)[\s(\\]*", re.DOTALL)
_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_CONVERSIONS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and not issubclass(value, BaseException) and value is not type
)
_CLEANINGS = frozenset(
    name
    for sample in (str, list, dict, set)
    for name in dir(sample)
    if not name.startswith("_") and _gives_its_own_type(sample, name)
)  # strip, lower, copy and their like
_CASES = frozenset({"isinstance", "issubclass", "startswith", "endswith"})


def _boundary(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if not isinstance(node, ast.Compare):
        return
    for left, right in pairwise([node.left, *node.comparators]):
        start, end, word = _between(text, left, right)
        if word in _BOUNDS:
            yield "boundary", start, end, _BOUNDS[word]


def _between(text: _Text, left: ast.AST, right: ast.AST) -> tuple[int, int, str]:
    """The operator between two operands, whatever brackets stand around them."""
    start = text.end(left)
    found = _GAP.fullmatch(text.between(start, text.start(right)))
    assert found is not None
    return start + found.start(1), start + found.end(1), found[1]


def _off_by_one(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    """A number that bounds a count, and the one that is added to a length or an index."""
    bounds: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        ordered = any(type(one) in (ast.Lt, ast.LtE, ast.Gt, ast.GtE) for one in node.ops)
        bounds = sides if ordered and any(_name(one) == "len" for one in sides) else []
    elif _name(node) == "range":
        bounds = node.args  # type: ignore[attr-defined]
    for one in bounds:
        if isinstance(one, ast.Constant) and type(one.value) is int and one.value > 0:
            for value in (one.value - 1, one.value + 1):
                yield "off_by_one", text.start(one), text.end(one), str(value)
    if _adds_one(node):
        yield "off_by_one", text.end(node.left), text.end(node), ""  # type: ignore[attr-defined]


def _adds_one(node: ast.AST) -> bool:
    one = node.right if isinstance(node, ast.BinOp) else None
    is_one = isinstance(one, ast.Constant) and type(one.value) is int and one.value == 1
    return is_one and isinstance(node.op, (ast.Add, ast.Sub))  # type: ignore[attr-defined]


def _lost_condition(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    """One part of `a and b` or `a or b`, and a flag of `a | b`."""
    if isinstance(node, ast.BoolOp):
        for left, right in pairwise(node.values):
            yield from _without_one(text, "lost_condition", left, right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield "lost_condition", text.end(node.left), text.end(node), ""


def _without_one(text: _Text, operator: str, left: ast.AST, right: ast.AST) -> Iterator[_Edit]:
    """Without the left or the right of two neighbours; what stands in brackets stays."""
    if not text.between(text.end(left), text.start(right)).strip(" \n\t,andor"):
        yield operator, text.start(left), text.start(right), ""
        yield operator, text.end(left), text.end(right), ""


def _loose_check(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    """`x is not None` as `x`: an empty string and a zero are forgotten."""
    if isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "None":
        word = {ast.Is: "not ", ast.IsNot: ""}.get(type(node.ops[0]))
        if word is not None and isinstance(node.left, (ast.Name, ast.Attribute)):
            yield "loose_check", text.start(node), text.end(node), word + text.of(node.left)


def _lost_conversion(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    """`str(x)` or `x.strip()` as `x`."""
    if not isinstance(node, ast.Call) or node.keywords or isinstance(node.func, ast.Subscript):
        return
    kept: ast.AST | None = None
    if isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS and len(node.args) == 1:
        kept = node.args[0]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _CLEANINGS and not node.args:
        kept = node.func.value
    if isinstance(kept, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        yield "lost_conversion", text.start(node), text.end(node), text.of(kept)


def _lost_clamp(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if _name(node) in ("min", "max") and len(node.args) == 2:  # type: ignore[attr-defined]
        for one in node.args:  # type: ignore[attr-defined]
            if isinstance(one, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
                yield "lost_clamp", text.start(node), text.end(node), text.of(one)


def _lost_choice(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    """`a if b else c` as one of the two."""
    if isinstance(node, ast.IfExp):
        for one in (node.body, node.orelse):
            if not isinstance(one, ast.Constant):
                yield "lost_choice", text.start(node), text.end(node), text.of(one)


def _lost_case(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    """One of the cases that a check lists, unless they are numbers."""
    cases: ast.AST | None = None
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        cases = node.comparators[0]
    elif isinstance(node, ast.ExceptHandler):
        cases = node.type
    elif _name(node) in _CASES and node.args:  # type: ignore[attr-defined]
        cases = node.args[-1]  # type: ignore[attr-defined]
    parts = getattr(cases, "elts", [])
    if any(isinstance(one, ast.Constant) and not isinstance(one.value, str) for one in parts):
        return
    if isinstance(cases, (ast.Tuple, ast.List, ast.Set)) and len(cases.elts) > 2:
        yield "lost_case", text.end(cases.elts[-2]), text.end(cases.elts[-1]), ""
        yield "lost_case", text.start(cases.elts[0]), text.start(cases.elts[1]), ""
    elif isinstance(cases, ast.Tuple) and len(cases.elts) == 2:
        for one in cases.elts:
            if isinstance(node, ast.Compare):  # `x in ("a", "b")` as `x == "a"`
                sign = "==" if isinstance(node.ops[0], ast.In) else "!="
                yield "lost_case", text.end(node.left), text.end(node), f" {sign} {text.of(one)}"
            else:
                yield "lost_case", text.start(cases), text.end(cases), text.of(one)


def _arguments(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args):
        return
    for one, other in pairwise(node.args):
        gap = text.between(text.end(one), text.start(other))
        pair = (text.of(one), text.of(other))
        alike = isinstance(one, ast.Name) and isinstance(other, ast.Name)
        if alike and gap.strip() == "," and not hasattr(builtins, _name(node)):
            swapped = f"{pair[1]}{gap}{pair[0]}"
            yield "swapped_arguments", text.start(one), text.end(other), swapped
    given = [*node.args, *(one.value for one in node.keywords)]
    last = given[-1] if len(given) > 1 else None
    is_option = bool(node.keywords and node.keywords[-1].arg) or isinstance(last, ast.Constant)
    if last is not None and is_option and last is max(given, key=text.end):
        yield "lost_argument", text.end(given[-2]), text.end(last), ""


def _name(node: ast.AST) -> str:
    """What a call calls, by its last name."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


_OPERATORS: tuple[Callable[[_Text, ast.AST], Iterator[_Edit]], ...] = (
    _boundary,
    _off_by_one,
    _lost_condition,
    _loose_check,
    _lost_conversion,
    _lost_clamp,
    _lost_choice,
    _lost_case,
    _arguments,
)


def _blocks(text: _Text, block: Sequence[ast.stmt]) -> Iterator[_Edit]:
    """Statements that a block can lose and still be one."""
    for node in _singular(block):
        if len(block) - _is_docstring(block[0]) < 2 or not text.owns_lines(node):
            continue
        if isinstance(node, ast.If) and not node.orelse and _is_short(node):
            yield "lost_branch", *text.commented_span(node), ""
        elif _has_effect(node):
            yield "lost_statement", *text.commented_span(node), ""


def _branches(text: _Text, node: ast.AST) -> Iterator[_Edit]:
    """An `elif`, or one of several handlers of an exception."""
    others: Sequence[ast.AST] = ()
    if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        others = node.orelse if text.of(node.orelse[0]).startswith("elif") else ()
    elif isinstance(node, ast.Try) and len(node.handlers) > 1:
        others = node.handlers
    for one in others:
        body = one.body  # type: ignore[attr-defined]
        yield "lost_branch", text.line_span(one)[0], text.line_span(body[-1])[1], ""


def _is_short(node: ast.If) -> bool:
    return (node.end_lineno or 0) - node.lineno < _MAX_GUARD_LINES


def _has_effect(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return all(isinstance(one, (ast.Attribute, ast.Subscript)) for one in node.targets)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
