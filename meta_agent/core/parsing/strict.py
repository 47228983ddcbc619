"""JSON from whoever means harm, and nothing that is hard to hold afterwards.

Promises: what is announced too large is refused unread; before a value is built its elements are
counted, so that three bytes that become seventy cannot be multiplied; then no NaN, no infinity, no
number beyond a float, no half of a surrogate pair, no depth that code after this would stumble
over. What is refused is `Unfit`, a ValueError, and says the figure and the limit. No step holds
the interpreter for longer than the scan of one string does, so other threads go on meanwhile.

Not covered: what the values mean, which the caller checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from meta_agent.core.protocols import JSON

MAX_DEPTH: Final = 100
MAX_DIGITS: Final = 300
"""Of one number: beyond 308 a float overflows, and time to read an integer grows by the square."""
FILE_ELEMENTS: Final = 2_000_000
_SHOWN: Final = 40
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_WIDE: Final = 24 << 20
"""Above this many bytes text must be ASCII: one wide character quadruples what it is decoded to."""
_SLICE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Budget:
    """The largest size of one JSON document, in bytes and in elements.

    The number of elements is that of its lists, objects and commas.
    """

    bytes: int = 8 << 20
    elements: int = 400_000


class Unfit(ValueError):  # noqa: N818 - a verdict on a text
    """Raised for a text that is not valid JSON, or that exceeds a limit of size or depth."""


def parse(data: bytes | bytearray | memoryview, budget: Budget | None = None) -> JSON:
    """Returns the value of a JSON document. `budget` is by default 8 MiB and 400,000 elements.

    Raises Unfit (a ValueError) for NaN and other text that is not JSON, for a document beyond
    `budget`, and for one nested over 100 levels.
    """
    budget = budget or Budget()
    size = len(data)
    if size > budget.bytes:
        raise Unfit(f"the JSON has {size} bytes; the limit is {budget.bytes}")
    if not isinstance(data, bytes):
        data = bytes(data)
    _count(data, budget.elements)
    halves = any(_HALF_PAIR.search(data, at, at + _SLICE + 3) for at in range(0, size, _SLICE))
    try:
        value = _DECODER.decode(str(data, "ascii" if size > _WIDE else "utf-8"))
    except RecursionError as error:
        raise Unfit("the JSON is nested too deeply to be read") from error
    except ValueError as error:  # also UnicodeDecodeError, whose text would hold all the data
        raise Unfit(f"it is not JSON: {str(error)[:200]}") from None
    _walk(value, texts=halves)
    return value


def document(text: str | bytes, *, halves: bool = True, **hooks: Any) -> JSON:
    """Returns the value of a JSON text from an untrusted source. NaN and infinity are accepted.

    Raises ValueError if it is not JSON, is too large or is nested over 100 levels; without `halves`
    also if it escapes half of a surrogate pair. `hooks` are arguments of Python's `json.loads`.
    """
    _count(text.encode("utf-8", "replace") if isinstance(text, str) else text, FILE_ELEMENTS)
    try:
        value = json.loads(text, **hooks)
    except RecursionError as error:
        raise Unfit("the JSON is nested too deeply to be read") from error
    _walk(value, texts=not halves and "\\u" in str(text))
    return value


def check_depth(value: JSON) -> None:
    """Raises Unfit (a ValueError) if the lists and objects of a value are over 100 levels deep."""
    _walk(value, texts=False)


def _count(data: bytes, limit: int) -> None:
    """Refuses more than `limit` elements. Commas in strings are told apart only if it matters."""
    if not _exceeds(data, 0, len(data), limit):
        return
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # now every quote opens or closes
    elements = at = 0
    while elements <= limit and (opens := plain.find(b'"', at)) >= 0:
        elements += _structure(plain, at, opens) or 1
        at = plain.find(b'"', opens + 1) + 1 or len(plain)
    if elements > limit or _exceeds(plain, at, len(plain), limit - elements):
        raise Unfit(f"{len(data)} bytes of JSON hold more than {limit} elements")


def _exceeds(data: bytes, start: int, end: int, limit: int) -> bool:
    elements = 0
    for at in range(start, end, _SLICE):
        elements += _structure(data, at, min(at + _SLICE, end))
        if elements > limit:
            return True
    return False


def _structure(data: bytes, start: int, end: int) -> int:
    return sum(data.count(mark, start, end) for mark in (b",", b"[", b"{"))


def _walk(value: JSON, *, texts: bool) -> None:
    """Walks level by level: refuses depth and, if there may be any, halves of surrogate pairs."""
    level: list[JSON] = [value]
    for _ in range(MAX_DEPTH):
        below: list[JSON] = []
        for held in level:
            if type(held) is dict:
                below += held.values()
                if texts:
                    below += held
            elif type(held) is list:
                below += held
            elif texts and type(held) is str:
                _whole(held)
        if not below:
            return
        level = below
    raise Unfit(f"the JSON is nested more than {MAX_DEPTH} levels deep")


def _whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("a string holds half of a surrogate pair") from None


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise Unfit(f"a number has {len(text)} digits; the limit is {MAX_DIGITS}")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if value - value != 0:
        raise Unfit(f"the number {text[:_SHOWN]} is too large")
    return value


def _constant(text: str) -> NoReturn:
    raise Unfit(f"{text} is not a JSON number")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_constant)


def leaves(value: object) -> Iterator[object]:
    """Yields the values inside nested mappings, lists and tuples, in order, but no keys."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        yield value
        return
    for inner in value:
        yield from leaves(inner)
