"""Where a test can be made to expect something else, found in its source.

A *site* is one expectation of a test and the place of its text that changes. In the order in which
they are good: a literal that is compared with, or an exception that is waited for (`VALUE`); a
value that is changed when the test runs (`COMPUTED`); a truth that is turned round (`TURNED`); a
literal inside what asserts in an unknown way (`INSIDE`). A site is `sure` if the test reaches it
whatever happens and nothing true passes. Of others only a run of the gold fix can tell.

Does not cover: tests that expect no more than to come to their end.
"""

from __future__ import annotations

import ast
import builtins
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from meta_agent.domains.swe.grading._values import another, is_plain, leaves

VALUE, COMPUTED, TURNED, INSIDE = range(4)
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
_WORDS: Final = ("other", "value", "name", "first")


class Change(NamedTuple):
    """A stretch of the source in bytes, and what makes the text in its place."""

    start: int
    end: int
    make: Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Site:
    """One expectation."""

    change: Change
    rank: int
    sure: bool = True


class Text:
    """A file's bytes, and where its nodes stand in them."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def span(self, node: ast.expr) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def of(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def replaced(self, node: ast.expr, make: Callable[[], str | None]) -> Change:
        return Change(*self.span(node), make)

    def literal(self, node: ast.expr) -> Change:
        """Another literal in the place of this one."""
        token = self.of(node)
        return self.replaced(node, lambda: another(token))


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
        return Site(self._text.replaced(node, lambda: new), TURNED, sure)

    def _turned_sign(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, sure: bool
    ) -> Iterator[Site]:
        start, end = self._text.span(left)[1], self._text.span(right)[0]
        between = self._text.source[start:end].decode()
        old, new = _SIGNS.get(type(op), ("", ""))
        if old and between.split() == old.split():
            yield Site(Change(start, end, lambda: f" {new} "), TURNED, sure)

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
            change = self._text.replaced(kind, lambda: secrets.choice(others))
            yield Site(change, VALUE if is_known else INSIDE, sure and is_known)
        texts = [word.value for word in call.keywords if word.arg == "match"]
        texts += call.args[1:2] if _name(call.func).startswith("assertRaisesRegex") else []
        for text in texts:
            if isinstance(text, ast.Constant):
                yield Site(self._text.literal(text), INSIDE, False)

    def _equal(self, left: ast.expr, right: ast.expr, sure: bool) -> Iterator[Site]:
        """Another value where a test compares; what it expects is what is a literal."""
        names = {_name(node) for side in (left, right) for node in ast.walk(side)}
        if names & _TOLERANT:
            return
        sides = (right, left) if not is_plain(left) or is_plain(right) else (left, right)
        sites = [site for side in sides for site in self._literals(side, VALUE, sure)]
        yield from sites
        if not sites:
            yield Site(self._computed(sides[0]), COMPUTED, sure)

    def _literals(self, side: ast.expr, rank: int, sure: bool) -> Iterator[Site]:
        side = _unwrapped(side)
        if rank == INSIDE or is_plain(side):
            for leaf in leaves(side):
                yield Site(self._text.literal(leaf), rank, sure)

    def _computed(self, node: ast.expr) -> Change:
        old, lines = self._text.of(node), self._text.of(node).count("\n")

        def make() -> str:
            number, word = secrets.choice((1, 2, 3)), repr(secrets.choice(_WORDS))
            new = _COMPUTED.format(sign=secrets.choice("+-"), number=number, word=word, old=old)
            return f"({new})" if lines else new

        return self._text.replaced(node, make)


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
