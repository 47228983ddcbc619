"""Plain data between processes that do not trust each other: values as tagged JSON, and back.

Only the data of a value travels, never its class. An object of a subclass of `int` arrives as an
`int`. An object of any other class arrives as an `Opaque`, which cannot be compared. The host
imports this module, and sandboxes get its source.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterator
from typing import Any

OPERATIONS: dict[str, Any] = {}  # installed as a module for the other guests
SEQUENCES: tuple[tuple[Any, str], ...] = (
    (list, "l"),
    (tuple, "t"),
    (set, "s"),
    (frozenset, "z"),
    (deque, "q"),
)
MAX_DEPTH = 120
MAX_ITEMS = 2_000_000


class NotDataError(Exception):
    """Raised if a value, or the JSON of a value, is no plain data such as numbers and lists."""


class Opaque:
    """Stands for an object of another process, which knows it by its `number`."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        raise NotDataError("an object of the candidate's own cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise NotDataError("an object of the candidate's own is neither true nor false")


class Codec:
    """Encodes values as JSON and decodes them. An object that is no data raises `NotDataError`.

    With `keep`, such an object is stored here instead, and encoded as its number.
    """

    def __init__(self, keep: bool = False) -> None:
        self._keep = keep
        self._kept: list[Any] = []
        self._left = MAX_ITEMS

    def encode(self, value: Any) -> Any:
        self._left = MAX_ITEMS
        return self._encode(value, 0)

    def _encode(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise NotDataError(f"a value has over {MAX_DEPTH} levels or {MAX_ITEMS} parts")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if isinstance(value, bool | int):
            number = int.__index__(value)
            return number if -(2**53) < number < 2**53 else {"i": hex(number)}
        if isinstance(value, float):
            return {"f": float.hex(float.__float__(value))}
        if isinstance(value, str):
            return str.__str__(value)
        return self._container(value, depth + 1)

    def _container(self, value: Any, depth: int) -> Any:
        for kind, tag in SEQUENCES:
            if isinstance(value, kind):
                items = kind.__iter__(value)
                return {tag: [self._encode(item, depth) for item in items]}
        if isinstance(value, dict):
            pairs = dict.items(value)
            return {"d": [[self._encode(k, depth), self._encode(v, depth)] for k, v in pairs]}
        if isinstance(value, bytes | bytearray):
            return {"b": base64.b64encode(bytes(value)).decode()}
        if isinstance(value, complex):
            return {"c": [float.hex(value.real), float.hex(value.imag)]}
        if isinstance(value, Iterator):
            return {"g": [self._encode(item, depth) for item in _bounded(value)]}
        if isinstance(value, Opaque):
            return {"o": value.number}
        if not self._keep:
            raise NotDataError(f"an object of type {type(value).__name__} is no plain data")
        self._kept.append(value)
        return {"o": len(self._kept) - 1}

    def decode(self, value: Any) -> Any:
        return self._decode(value, 0)

    def _decode(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise NotDataError(f"a value has over {MAX_DEPTH} levels")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is not dict or len(value) != 1:
            raise NotDataError("expected null, a number, a text or {TAG: value}")
        ((tag, inner),) = value.items()
        try:
            return self._tagged(tag, inner, depth + 1)
        except (TypeError, ValueError, IndexError, KeyError, OverflowError) as error:
            raise NotDataError(f"{tag!r:.20} cannot be decoded: {error}") from error

    def _tagged(self, tag: str, inner: Any, depth: int) -> Any:
        if tag == "i":
            return int(inner, 16)
        if tag == "f":
            return float.fromhex(inner)
        if tag == "c":
            return complex(float.fromhex(inner[0]), float.fromhex(inner[1]))
        if tag == "b":
            return base64.b64decode(inner)
        if tag == "d":
            return {self._decode(k, depth): self._decode(v, depth) for k, v in inner}
        if tag == "o":
            return self._kept[int(inner)] if self._keep else Opaque(int(inner))
        items = [self._decode(item, depth) for item in inner]
        makers: dict[str, Any] = {"t": tuple, "s": set, "z": frozenset, "q": deque, "g": iter}
        return items if tag == "l" else makers[tag](items)


def _bounded(values: Iterator[Any]) -> Iterator[Any]:
    for count, value in enumerate(values):
        if count >= 100_000:
            raise NotDataError("an iterator has over 100000 items")
        yield value
