"""Another value that could as well have stood in a test: of the same kind, spelled the same way.

`another` returns a token of the same type that is not equal to the one it replaces. A decimal
number is not even nearly equal, because tests allow for tolerance.
"""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Iterator
from typing import Final

from meta_agent.core.parsing.syntax import literal_value

_PART: Final = re.compile(r"\\.|([A-Za-z0-9])")
_EMPTY: Final = {"[]": "[1]", "()": "(1,)"}
_DIGITS, _LETTERS = "123456789", "abcdefghiklmnoprstuw"


def another(token: str) -> str | None:
    """Returns another Python literal of the same type and style, or None if there is none."""
    before = _read(token)
    after = _changed(token, before)
    value = _read(after or "")
    return after if type(value) is type(before) and value != before else None


def _read(token: str) -> object:
    try:
        value: object = literal_value(token)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value


def _changed(token: str, value: object) -> str | None:
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int) and token.isdigit():
        return str(_moved(value)).zfill(len(token) if token[0] == "0" else 0)
    if isinstance(value, int | float | complex):
        return _with_other_sign(token, digits_only=True)
    if isinstance(value, str | bytes):
        return _with_other_sign(token, digits_only=False)
    return _EMPTY.get(token.replace(" ", ""))


def _moved(value: int) -> int:
    """Returns a number as round as before: 100 becomes 200 or 300, never 103."""
    step = 1
    while value and value % (step * 10) == 0:
        step *= 10
    distance = step * secrets.choice((1, 2, 3))
    return value - distance if value >= distance and secrets.randbelow(2) else value + distance


def _with_other_sign(token: str, *, digits_only: bool) -> str:
    """Returns the token with its first digit of weight, or any letter or digit, exchanged."""
    start = token.find(token.lstrip("rRbBuU")[:1])
    places = [part.start() for part in _PART.finditer(token, start) if part[1]]
    if digits_only:
        first = 2 if token[:2].lower() in ("0x", "0b", "0o") else 0
        places = [n for n in places if n >= first and token[n] in _DIGITS][:1] or places[-1:]
    if not places:
        end = max(token.find("'"), token.find('"')) + 1
        return f"{token[:end]}a{token[end:]}"
    place = secrets.choice(places)
    return f"{token[:place]}{_other(token[place])}{token[place + 1 :]}"


def _other(sign: str) -> str:
    signs = _DIGITS if sign.isdigit() else _LETTERS.upper() if sign.isupper() else _LETTERS
    return secrets.choice([other for other in signs if other != sign])


def is_plain(node: ast.expr) -> bool:
    """Returns whether an expression is nothing but literals, in containers or alone."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and is_plain(node.operand)
    if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
        return all(map(is_plain, _parts(node)))
    return isinstance(node, ast.Constant)


def leaves(node: ast.expr) -> Iterator[ast.expr]:
    """Yields the literals in an expression of literals, and its empty lists and tuples."""
    parts = _parts(node)
    if isinstance(node, ast.Constant):
        if node.value is not None and node.value is not Ellipsis:
            yield node
    elif isinstance(node, ast.List | ast.Tuple) and not parts:
        yield node
    for part in parts:
        yield from leaves(part)


def _parts(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return parts
        case ast.Dict(keys=keys, values=values):
            # A key that is None unpacks another dict, which is its value.
            return [*values, *(key for key in keys if key is not None)]
        case ast.UnaryOp(operand=operand):
            return [operand]
    return []
