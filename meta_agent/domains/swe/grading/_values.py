"""Another value that could as well have stood in a test: of the same kind, spelled the same way.

Promises: what `another` gives is a token of the same type as the one it replaces and is not equal
to it (a decimal number not even nearly, as tests allow for tolerance); it lies above or below as
asked, where there is room; words come from the same file. So no look at one value, its range, its
roundness or its spelling tells whether it is what the test had.

Does not cover: who knows what a right value looks like knows something of the answer.
"""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from meta_agent.core.parsing.syntax import literal_value

_TRIES: Final = 12
_NEAR: Final = 20  # a whole number moves by up to a twentieth, or by three
_PARTS: Final = re.compile(r"\\.|[A-Za-z]{2,}|\d+|[A-Za-z]")
_WORD: Final = re.compile(r"[A-Za-z]{2,}")
_DECIMAL: Final = re.compile(r"(\d*)\.(\d*)((?:[eE][-+]?\d+)?)|(\d+)()([eE][-+]?\d+)")
_EMPTY: Final = {"[]": "[%s]", "()": "(%s,)"}


class Pool(NamedTuple):
    """What else a file of tests says."""

    words: tuple[str, ...]
    numbers: tuple[int, ...]


def pool_of(module: ast.Module) -> Pool:
    """The words and the whole numbers of a file's literals."""
    values = [node.value for node in ast.walk(module) if isinstance(node, ast.Constant)]
    texts = [value for value in values if isinstance(value, str) and len(value) < 80]
    words = {word for text in texts for word in _WORD.findall(text)}
    numbers = {value for value in values if type(value) is int}
    return Pool(tuple(sorted(words)), tuple(sorted(numbers)))


def another(token: str, up: bool, pool: Pool) -> str | None:
    """Another literal in the place of this one; None for what has no other at hand."""
    before = _read(token)
    for _ in range(_TRIES):
        candidate = _candidate(token, before, up, pool)
        if candidate is not None and _differs(before, _read(candidate)):
            return candidate
    return None


def _read(token: str) -> object:
    try:
        value: object = literal_value(token)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value


def _differs(before: object, after: object) -> bool:
    if type(before) is not type(after):
        return False
    if isinstance(before, str) and isinstance(after, str):
        return before.split() != after.split() and before.lower() != after.lower()
    return before != after


def _candidate(token: str, value: object, up: bool, pool: Pool) -> str | None:
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int):
        return _whole(token, value, up, pool)
    if isinstance(value, float):
        return _decimal(token, up)
    if isinstance(value, str | bytes):
        return _text(token, up, pool)
    empty = token.replace(" ", "")
    return _EMPTY[empty] % _member(pool) if empty in _EMPTY else None


def _member(pool: Pool) -> str:
    """Something to put into an empty list."""
    return str(secrets.choice(pool.numbers)) if pool.numbers else "1"


def _whole(token: str, value: int, up: bool, pool: Pool) -> str | None:
    if not token.isdigit():  # hexadecimal, or with underscores: one digit of it
        return _one_digit(token)
    alike = [number for number in pool.numbers if _alike(number, value) and (number > value) is up]
    if alike and secrets.randbelow(2):
        return str(secrets.choice(alike)).zfill(len(token) if token[0] == "0" else 0)
    return str(_moved(value, up))


def _alike(number: int, value: int) -> bool:
    """Near enough that nobody could tell which of the two belongs here."""
    return 0 <= number != value and len(str(number)) == len(str(value))


def _moved(value: int, up: bool) -> int:
    """As round as before: 100 becomes 200 or 300, never 103."""
    step = 1
    while value and value % (step * 10) == 0:
        step *= 10
    units = value // step
    wide = units // _NEAR
    far = 1 + secrets.randbelow(wide) if wide > 3 else secrets.choice((1, 2, 2, 3))  # odd or even
    lower = units - min(far, units)
    return (units + far if up or lower == units else lower) * step


def _one_digit(token: str) -> str:
    places = [n for n, sign in enumerate(token) if sign.isdigit() and n > 1]
    if not places:
        return token
    place = secrets.choice(places)
    return f"{token[:place]}{_other_digit(token[place])}{token[place + 1 :]}"


def _other_digit(digit: str) -> str:
    return secrets.choice([sign for sign in "123456789" if sign != digit])


def _decimal(token: str, up: bool) -> str | None:
    """With as many places; further off than any tolerance that a test would name."""
    match = _DECIMAL.fullmatch(token)
    if not match:
        return None
    whole, places, exponent = match[1] or match[4] or "", match[2] or "", match[3] or match[6] or ""
    digits = f"{whole}{places}" or "0"
    number = int(digits)
    share = 25 + secrets.randbelow(50)
    far = max(1, number * share // 100)
    moved = number + far if up or far >= number else number - far
    moved = moved or 1 + secrets.randbelow(9)
    text = str(moved).zfill(len(digits))
    cut = len(text) - len(places)
    point = "." if "." in token else ""
    return f"{text[:cut] if whole or len(text) > len(places) else ''}{point}{text[cut:]}{exponent}"


def _text(token: str, up: bool, pool: Pool) -> str:
    """One word, number or letter of it exchanged; an empty text gets a word."""
    parts = [part for part in _PARTS.finditer(token) if not part[0].startswith("\\")]
    if not parts:
        quote = max(token.find("'"), token.find('"'))
        return f"{token[: quote + 1]}{_word('', pool)}{token[quote + 1 :]}"
    long = [part for part in parts if len(part[0]) > 1 or part[0].isdigit()]
    part = secrets.choice(long or parts)
    return f"{token[: part.start()]}{_other_part(part[0], up, pool)}{token[part.end() :]}"


def _other_part(part: str, up: bool, pool: Pool) -> str:
    if part.isdigit():
        return _other_number(part, up)
    if len(part) > 1 and secrets.randbelow(4):
        return _word(part, pool)
    return _other_letter(part)


def _other_number(part: str, up: bool) -> str:
    return str(_moved(int(part), up)).zfill(len(part) if part[0] == "0" else 0)


def _word(like: str, pool: Pool) -> str:
    """A word of the file that is written alike; else the same one with another letter."""
    fitting = [word for word in pool.words if word.lower() != like.lower() and _cased(word, like)]
    return secrets.choice(fitting) if fitting else _other_letter(like or "a")


def _cased(word: str, like: str) -> bool:
    return not like or (word.islower(), word.isupper()) == (like.islower(), like.isupper())


def _other_letter(word: str) -> str:
    place = secrets.randbelow(len(word))
    letters = "abcdefghiklmnoprstuw"
    letters = letters.upper() if word[place].isupper() else letters
    letter = secrets.choice([sign for sign in letters if sign.lower() != word[place].lower()])
    return f"{word[:place]}{letter}{word[place + 1 :]}"


def leaves(node: ast.expr) -> Iterator[ast.expr]:
    """The literals inside an expression that it is made of, and empty lists."""
    if isinstance(node, ast.Constant):
        if node.value is not None and node.value is not Ellipsis:
            yield node
    elif isinstance(node, ast.List | ast.Tuple) and not node.elts:
        yield node
    elif isinstance(node, ast.UnaryOp):
        yield from leaves(node.operand)
    else:
        for inner in _parts(node):
            yield from leaves(inner)


def is_plain(node: ast.expr) -> bool:
    """Nothing but literals, in lists or alone."""
    kinds = (ast.List, ast.Tuple, ast.Set, ast.Dict)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and is_plain(node.operand)
    if isinstance(node, kinds):
        return all(is_plain(part) for part in _parts(node))
    return isinstance(node, ast.Constant)


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    """What an expression's value is put together from; not what it is looked up by."""
    match node:
        case ast.List(elts=found) | ast.Tuple(elts=found) | ast.Set(elts=found):
            return found
        case ast.Dict(keys=keys, values=values):
            return [*values, *(key for key in keys if key is not None)]
        case ast.Call(args=args, keywords=keywords):
            return [*args, *(keyword.value for keyword in keywords)]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Starred(value=value):
            return [value]
        case ast.BoolOp(values=values):
            return values
    return []
