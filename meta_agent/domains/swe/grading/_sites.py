"""Where a test can be made to expect something else, found in its source.

A *site* is one expectation of a test and the places of its text that have to change together. In
the order in which they are good: literals that are compared with or exceptions that are waited for
(`VALUE`); literals of a side that names Python's own alone, which the code under test is not
(`MADE`); literals deeper inside either side (`INSIDE`); a value that is changed when the test
runs (`COMPUTED`); a truth that is turned round (`TURNED`). `sure` is a site that the test reaches
whatever happens and that nothing true passes; of others only a run of the gold fix can tell.

Does not cover: tests that expect no more than to come to their end.
"""

from __future__ import annotations

import ast
import builtins
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from meta_agent.core.parsing.syntax import literal_value
from meta_agent.domains.swe.grading._values import Pool, another, is_plain, leaves

VALUE, MADE, INSIDE, COMPUTED, TURNED = range(5)
Function = ast.FunctionDef | ast.AsyncFunctionDef

_TOLERANT: Final = frozenset({"ANY", "Mock", "MagicMock"})  # rightly equal to more than one value
_WRAPPERS: Final = frozenset({"approx", "array", "asarray"})
_COMPARING: Final = frozenset(
    {"assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertSetEqual"}
    | {"assertDictEqual", "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual"}
    | {"assertItemsEqual", "assert_equal", "assert_equals", "assert_array_equal", "eq_"}
    | {"assertAlmostEqual", "assertAlmostEquals", "assert_almost_equal", "assert_allclose"}
    | {"allclose", "isclose", "assert_array_almost_equal", "assertRegex", "assertJSONEqual"}
)
_OPPOSITES: Final = {
    name: opposite
    for pair in (
        ("assertTrue", "assertFalse"),
        ("assertIn", "assertNotIn"),
        ("assertIs", "assertIsNot"),
        ("assertIsNone", "assertIsNotNone"),
        ("assertIsInstance", "assertNotIsInstance"),
        ("assertGreater", "assertLessEqual"),
        ("assertLess", "assertGreaterEqual"),
        ("assertNotEqual", "assertEqual"),
    )
    for name, opposite in (pair, pair[::-1])
}
_SIGNS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_RAISING: Final = frozenset({"raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp"})
# Such as one class could be all of, so that being all of them is found out.
_RAISED: Final = (
    *("ValueError", "TypeError", "KeyError", "IndexError", "RuntimeError", "NotImplementedError"),
    *("ZeroDivisionError", "LookupError", "ArithmeticError", "AssertionError"),
)
_COMPUTED: Final = (
    "(lambda v: v {sign} {number} if type(v) is int or type(v) is float and abs(v) < 1e9"
    " else v + {word} if type(v) is str else v + {word}.encode() if type(v) is bytes"
    " else [*v, {word}] if type(v) is list else (*v, {word}) if type(v) is tuple"
    " else dict(v, x{number}={word}) if type(v) is dict"
    " else v | {{{word}}} if type(v) in (set, frozenset) else [][{number}])({old})"
)
_NUMBERS: Final = frozenset({"len", "sum", "int", "abs", "round", "float"})


class Change(NamedTuple):
    """A stretch of the source in bytes, and what makes the text in its place."""

    start: int
    end: int
    make: Callable[[bool], str | None]  # takes: upward?


@dataclass(frozen=True, slots=True)
class Site:
    """One expectation."""

    changes: tuple[Change, ...]
    rank: int
    sure: bool = True


class Text:
    """A file's bytes, and where its nodes stand in them."""

    def __init__(self, source: bytes, pool: Pool) -> None:
        self.source, self.pool = source, pool
        self._starts = [0]
        for line in source.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def span(self, node: ast.expr) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def of(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def replaced(self, node: ast.expr, make: Callable[[bool], str | None]) -> Change:
        return Change(*self.span(node), make)

    def literal(self, node: ast.expr) -> Change:
        """Another literal in the place of this one."""
        token = self.of(node)
        return self.replaced(node, lambda up: another(token, up, self.pool))


def sites_of(test: Function, text: Text) -> list[Site]:
    """Every expectation of a test."""
    return list(_Finder(test, text).sites())


class _Finder:
    def __init__(self, test: Function, text: Text) -> None:
        self._test, self._text = test, text
        # Where it may leave before its end nothing is reached for sure.
        leaves_early = any(isinstance(inner, ast.Return | ast.Yield) for inner in ast.walk(test))
        self._straight = not leaves_early

    def sites(self) -> Iterator[Site]:
        yield from self._in(self._test.body, self._straight)

    def _in(self, body: list[ast.stmt], sure: bool) -> Iterator[Site]:
        for statement in body:
            if isinstance(statement, ast.Assert):
                yield from self._truth(statement.test, sure)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                yield from self._call(statement.value, sure)
            elif isinstance(statement, ast.With | ast.AsyncWith):
                waits = [site for item in statement.items for site in self._waiting(item, sure)]
                yield from waits
                yield from self._in(statement.body, sure and not waits)
            elif isinstance(statement, ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try):
                yield from self._branches(statement)

    def _branches(
        self, statement: ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try
    ) -> Iterator[Site]:
        if isinstance(statement, ast.If):
            yield from self._truth(statement.test, False)
        yield from self._in([*statement.body, *statement.orelse], False)
        if isinstance(statement, ast.Try):
            handled = [stmt for handler in statement.handlers for stmt in handler.body]
            yield from self._in([*handled, *statement.finalbody], False)

    def _truth(self, test: ast.expr, sure: bool) -> Iterator[Site]:
        """What an `assert` says."""
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    yield from self._truth(value, sure)
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                yield from self._equal(left, right, sure)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from self._turned_sign(left, op, right, sure)
            case ast.Compare():
                return
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                inside = self._text.of(inner)
                yield self._turned(test, f"({inside})", sure)
            case ast.Call(func=func, args=[value, other, *_]) if _name(func) in _COMPARING:
                yield from self._equal(value, other, sure)
            case _:
                yield self._turned(test, f"not ({self._text.of(test)})", sure)

    def _turned(self, node: ast.expr, new: str, sure: bool) -> Site:
        return Site((self._text.replaced(node, lambda _: new),), TURNED, sure)

    def _turned_sign(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, sure: bool
    ) -> Iterator[Site]:
        start, end = self._text.span(left)[1], self._text.span(right)[0]
        between = self._text.source[start:end].decode()
        old, new = _SIGNS.get(type(op), ("", ""))
        if old and between.split() == old.split():
            yield Site((Change(start, end, lambda _: f" {new} "),), TURNED, sure)

    def _call(self, call: ast.Call, sure: bool) -> Iterator[Site]:
        """`self.assertEqual(a, b)`, `assert_equal(a, b)`, `pytest.raises(Error, f)`."""
        name = _name(call.func)
        plain = not any(isinstance(argument, ast.Starred) for argument in call.args)
        if name in _RAISING and call.args and plain:
            yield from self._raised(call, sure)
        elif name in _COMPARING and len(call.args) > 1 and plain:
            yield from self._equal(call.args[0], call.args[1], sure)
        elif name in _OPPOSITES:
            opposite = f"{self._text.of(call.func).removesuffix(name)}{_OPPOSITES[name]}"
            yield self._turned(call.func, opposite, sure)
        elif name.lower().startswith("assert"):
            for argument in (*call.args[::-1], *(word.value for word in call.keywords)):
                yield from self._literals(argument, INSIDE, False)

    def _waiting(self, item: ast.withitem, sure: bool) -> Iterator[Site]:
        call = item.context_expr
        if isinstance(call, ast.Call) and _name(call.func) in _RAISING and call.args:
            yield from self._raised(call, sure)

    def _raised(self, call: ast.Call, sure: bool) -> Iterator[Site]:
        """Another exception, or another text of it."""
        kind = call.args[0]
        old = getattr(builtins, kind.id, None) if isinstance(kind, ast.Name) else None
        others = [name for name in _RAISED if _unrelated(name, old)]
        if others:
            is_known = isinstance(old, type)
            change = self._text.replaced(kind, lambda _: secrets.choice(others))
            yield Site((change,), VALUE if is_known else INSIDE, sure and is_known)
        texts = [word.value for word in call.keywords if word.arg == "match"]
        texts += call.args[1:2] if _name(call.func).startswith("assertRaisesRegex") else []
        for text in texts:
            if isinstance(text, ast.Constant):
                yield Site((self._text.literal(text),), INSIDE, False)

    def _equal(self, left: ast.expr, right: ast.expr, sure: bool) -> Iterator[Site]:
        """Another value where a test compares; what it expects is what is a literal."""
        names = {_name(node) for side in (left, right) for node in ast.walk(side)}
        if names & _TOLERANT:
            return
        sides = (right, left) if not is_plain(left) or is_plain(right) else (left, right)
        sites = [site for side in sides for site in self._literals(side, VALUE, sure)]
        best = [site for site in sites if site.rank == VALUE]
        yield from best or sites
        if not best:
            yield Site((self._computed(sides[0]),), COMPUTED, sure)

    def _literals(self, side: ast.expr, rank: int, sure: bool) -> Iterator[Site]:
        side = _unwrapped(side)
        if isinstance(side, ast.Name):
            yield from self._name_sites(side, rank, sure)
            return
        plain = is_plain(side)
        rank = max(rank, VALUE if plain else MADE if _is_closed(side) else INSIDE)
        for leaf in leaves(side):
            yield Site((self._text.literal(leaf),), rank, sure and plain)

    def _name_sites(self, name: ast.Name, rank: int, sure: bool) -> Iterator[Site]:
        """The literals behind a name that is there to be compared with, and for nothing else."""
        uses = [
            use for use in ast.walk(self._test) if isinstance(use, ast.Name) and use.id == name.id
        ]
        stores = [use for use in uses if isinstance(use.ctx, ast.Store)]
        if len(uses) - len(stores) != _times_compared(self._test, name.id):
            return
        values = [
            use.value
            for use in self._test.body
            if isinstance(use, ast.Assign) and isinstance(use.targets[0], ast.Name)
            if use.targets[0].id == name.id
        ]
        if len(stores) == len(values) == 1:
            yield from self._literals(values[0], rank, sure)
        elif not stores:
            yield from self._parametrized(name.id, rank, sure)
        elif len(stores) == 1:
            yield from self._looped(name.id, rank)

    def _parametrized(self, name: str, rank: int, sure: bool) -> Iterator[Site]:
        """A column of the table in `parametrize`: one literal of each of its rows."""
        for mark in self._test.decorator_list:
            if isinstance(mark, ast.Call) and _name(mark.func) == "parametrize" and mark.args[1:]:
                names = _argument_names(mark.args[0])
                column = _column(mark.args[1], names, name) if name in names else None
                if column:
                    changes = [next(iter(leaves(change)), None) for change in column]
                    literals = tuple(
                        self._text.literal(change) for change in changes if change is not None
                    )
                    whole = len(literals) == len(column)
                    yield Site(literals, rank if whole else INSIDE, sure and whole)

    def _looped(self, name: str, rank: int) -> Iterator[Site]:
        """The same in the table of a loop."""
        for loop in ast.walk(self._test):
            if not isinstance(loop, ast.For):
                continue
            names = [_name(element) for element in getattr(loop.target, "elts", [loop.target])]
            column = _column(loop.iter, names, name) if name in names else None
            for element in column or ():
                for leaf in leaves(element):
                    yield Site((self._text.literal(leaf),), rank, False)

    def _computed(self, node: ast.expr) -> Change:
        old, lines = self._text.of(node), self._text.of(node).count("\n")
        number = isinstance(node, ast.Call) and _name(node.func) in _NUMBERS

        def make(up: bool) -> str:
            sign, far = "+-"[not up], 1 + secrets.randbelow(3)
            if number:
                return f"{old} {sign} {far}"
            word = repr(secrets.choice(self._text.pool.words or ("other",)))
            new = _COMPUTED.format(sign=sign, number=far, word=word, old=old)
            return f"({new})" if lines else new

        return self._text.replaced(node, make)


def _is_closed(node: ast.expr) -> bool:
    """Whether all that it names is Python's own, as in `list("CDE")`."""
    names = (name_node.id for name_node in ast.walk(node) if isinstance(name_node, ast.Name))
    return all(hasattr(builtins, name) for name in names)


def _times_compared(test: Function, name: str) -> int:
    """How often a name is by itself what something else is compared with."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.walk(test):
        match node:
            case ast.Assert(test=ast.Compare(left=left, comparators=[right])):
                pairs.append((left, right))
            case ast.Call(args=[left, right, *_]) if _name(node.func) in _COMPARING:
                pairs.append((left, right))
    return sum(_is_alone(side, other, name) for pair in pairs for side, other in (pair, pair[::-1]))


def _is_alone(side: ast.expr, other: ast.expr, name: str) -> bool:
    return _name(_unwrapped(side)) == name and all(_name(node) != name for node in ast.walk(other))


def _column(table: ast.expr, names: list[str], name: str) -> list[ast.expr] | None:
    """One column of a table of literals, where all of its rows are as long as its heading."""
    rows = getattr(table, "elts", None)
    if not rows or not isinstance(table, ast.List | ast.Tuple):
        return None
    if len(names) == 1:
        return list(rows)
    cells = [getattr(row, "elts", []) for row in rows]
    if any(len(row) != len(names) for row in cells):
        return None
    return [row[names.index(name)] for row in cells]


def _argument_names(node: ast.expr) -> list[str]:
    try:
        value = literal_value(node)
    except (ValueError, TypeError, SyntaxError):
        return []
    names = value.split(",") if isinstance(value, str) else list(value)
    return [str(name).strip() for name in names if str(name).strip()]


def _unwrapped(node: ast.expr) -> ast.expr:
    """`approx(1.5)` is about 1.5."""
    inside = isinstance(node, ast.Call) and _name(node.func) in _WRAPPERS and node.args
    return _unwrapped(node.args[0]) if inside and isinstance(node, ast.Call) else node


def _unrelated(name: str, kind: object) -> bool:
    """Whether neither of two exceptions is one of the other."""
    exception = getattr(builtins, name)
    if not isinstance(kind, type):
        return True
    return not issubclass(exception, kind) and not issubclass(kind, exception)


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))
