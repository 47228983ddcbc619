"""Where a test can be made to expect something else, found in its source.

A *site* is one expectation of a test and the place of its text that changes. In the order in which
they are good: a literal that is compared with, or an exception that is waited for (`VALUE`); a
value that is changed when the test runs (`COMPUTED`); a truth that is turned round (`TURNED`). A
site is `sure` if the test reaches it whatever happens and nothing true passes. Of others only a run
of the gold fix can tell.

Does not cover: tests that expect no more than to come to their end.
"""

from __future__ import annotations

import ast
import builtins
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from meta_agent.domains.swe.grading._values import another, is_plain, leaves

VALUE, COMPUTED, TURNED = range(3)
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
_RAISES: Final = '__import__("unittest").TestCase().assertRaises'
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


@dataclass(frozen=True, slots=True)
class Site:
    """A piece of test source that states what the test expects, and a function that alters it."""

    start: int
    end: int
    make: Callable[[], str | None]
    rank: int
    sure: bool = True


class Text:
    """A source file that returns the text and the byte offsets of its syntax nodes."""

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

    def literal(self, node: ast.expr, sure: bool) -> Site:
        """Returns a literal as a place to alter. `sure` says that the test always reaches it."""
        token = self.of(node)
        return Site(*self.span(node), lambda: another(token), VALUE, sure)


def sites_of(test: Function, text: Text) -> list[Site]:
    """Returns the sites of a test function: pieces of source that state what it expects."""
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
        """Yields the sites of an `assert`: the pieces of source that state what it expects."""
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    yield from self._truth(value, sure)
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                yield from self._equal(left, right, sure)
            case ast.Call(func=func, args=[value, other, *_]) if _name(func) in _COMPARING:
                yield from self._equal(value, other, sure)
            case _:
                yield self._turned(test, f"not ({self._text.of(test)})", sure)

    def _turned(self, node: ast.expr, new: str, sure: bool) -> Site:
        return Site(*self._text.span(node), lambda: new, TURNED, sure)

    def _call(self, call: ast.Call, sure: bool) -> Iterator[Site]:
        """Yields the sites of `self.assertEqual(a, b)`, `pytest.raises(Error, f)` and the like."""
        name = _name(call.func)
        plain = not any(isinstance(argument, ast.Starred) for argument in call.args)
        if name in _RAISING and call.args and plain:
            yield from self._raised(call, sure)
        elif name in _COMPARING and len(call.args) > 1 and plain:
            yield from self._equal(call.args[0], call.args[1], sure)
        elif name.lower().startswith("assert"):
            start, function = self._text.span(call.func)[0], self._text.of(call.func)
            end = self._text.source.index(b"(", self._text.span(call.func)[1]) + 1
            new = f"{_RAISES}(AssertionError, {function}, "
            yield Site(start, end, lambda: new, TURNED, sure)

    def _waiting(self, item: ast.withitem, sure: bool) -> Iterator[Site]:
        call = item.context_expr
        if isinstance(call, ast.Call) and _name(call.func) in _RAISING and call.args:
            yield from self._raised(call, sure)

    def _raised(self, call: ast.Call, sure: bool) -> Iterator[Site]:
        """Yields the site of an expected exception, which another exception can replace."""
        kind = call.args[0]
        old = getattr(builtins, kind.id, None) if isinstance(kind, ast.Name) else None
        others = [name for name in _RAISED if _unrelated(name, old)]
        if others:
            is_known = isinstance(old, type)
            span = self._text.span(kind)
            yield Site(*span, lambda: secrets.choice(others), VALUE, sure and is_known)

    def _equal(self, left: ast.expr, right: ast.expr, sure: bool) -> Iterator[Site]:
        """Yields the sites of a comparison: its literals, or else a side whose value is changed."""
        names = {_name(node) for side in (left, right) for node in ast.walk(side)}
        if names & _TOLERANT:
            return
        sides = (right, left) if not is_plain(left) or is_plain(right) else (left, right)
        plain = [part for part in map(_unwrapped, sides) if is_plain(part)]
        sites = [self._text.literal(leaf, sure) for part in plain for leaf in leaves(part)]
        yield from sites
        if not sites:
            yield self._computed(sides[0], sure)

    def _computed(self, node: ast.expr, sure: bool) -> Site:
        old, lines = self._text.of(node), self._text.of(node).count("\n")

        def make() -> str:
            number, word = secrets.choice((1, 2, 3)), repr(secrets.choice(_WORDS))
            new = _COMPUTED.format(sign=secrets.choice("+-"), number=number, word=word, old=old)
            return f"({new})" if lines else new

        return Site(*self._text.span(node), make, COMPUTED, sure)


def _unwrapped(node: ast.expr) -> ast.expr:
    """Returns the argument of wrappers such as `approx(1.5)`, or the node itself."""
    inside = isinstance(node, ast.Call) and _name(node.func) in _WRAPPERS and node.args
    return _unwrapped(node.args[0]) if inside and isinstance(node, ast.Call) else node


def _unrelated(name: str, kind: object) -> bool:
    """Returns whether neither of two exceptions is a subclass of the other."""
    exception = getattr(builtins, name)
    if not isinstance(kind, type):
        return True
    return not issubclass(exception, kind) and not issubclass(kind, exception)


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))
