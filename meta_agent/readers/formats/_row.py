"""Typed access to one row of another tool's file. Every complaint names field, wish and value.

A `RowError` means that the row is skipped and counted. It never ends an import.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_agent.core.protocols import JSON

_SHOWN_CHARS = 60
_EMPTY: tuple[JSON, ...] = (None, "", [], {})


class RowError(Exception):
    """Raised if a row is not as its format says. Such rows are skipped and counted by `reason`."""

    def __init__(self, reason: str, excerpt: str = "") -> None:
        super().__init__(f"{reason}, got {excerpt}" if excerpt else reason)
        self.reason = reason
        self.shown = excerpt


def finite(value: JSON) -> float | None:
    """Returns a number as a float, or None for NaN, infinity and values that are no number."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON has integers of any length
        return None
    return number if math.isfinite(number) else None


def has(value: JSON, *names: str) -> bool:
    """Returns True for a JSON object that holds all the fields `names`."""
    return isinstance(value, dict) and all(name in value for name in names)


def as_object(value: JSON) -> dict[str, JSON]:
    """Returns the object itself, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def excerpt(value: JSON) -> str:
    """Returns a value as JSON text, cut short for an error message."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


@dataclass(slots=True)
class SourceRow:
    """A JSON object of a file, with typed access. An absent nested object is empty and false.

    Methods take several names and return the first field that has a value, or None. They raise
    `RowError` on a wrong type. `a.b` is the field `b` of the object `a`. `used` has names read.
    """

    values: Mapping[str, JSON]
    prefix: str = ""
    used: set[str] = field(default_factory=set)
    there: bool = True

    def __bool__(self) -> bool:
        return self.there

    def get(self, name: str) -> JSON:
        """Returns the value of one field, or None."""
        head, dot, rest = name.partition(".")
        if dot and name not in self.values:
            return self.object(head).get(rest)
        self.used.add(name)
        return self.values.get(name)

    def has(self, name: str) -> bool:
        """Returns True if the row has a field, which may be null."""
        head, dot, rest = name.partition(".")
        if dot and name not in self.values:
            return self.object(head).has(rest)
        return name in self.values

    def text(self, *names: str) -> str | None:
        """Returns the first value of these fields, or None. Raises RowError if it is no string."""
        text: str | None = self._first(names, (str,), "a string")
        return text

    def label(self, *names: str) -> str | None:
        """Returns the fields' first value as text, or None. Raises RowError if no string or int."""
        value = self._first(names, (str, int), "a string or a whole number")
        return None if value is None else str(value)

    def integer(self, *names: str) -> int | None:
        """Returns the first value of these fields, or None. Raises RowError if it is no integer."""
        number: int | None = self._first(names, (int,), "a whole number")
        return number

    def flag(self, *names: str) -> bool | None:
        """Returns the fields' first bool, 0 or 1 as a bool, or None. Raises RowError on others."""
        value = self._first(names, (bool, int, float), "true or false")
        if value is not None and value not in (0, 1):
            raise self.need(
                next(name for name in names if self.get(name) is not None), "true or false"
            )
        return None if value is None else bool(value)

    def number(self, *names: str) -> float | None:
        """Returns the fields' first value if finite, or None. Raises RowError if no number."""
        return finite(self._first(names, (int, float, bool), "a number"))

    def items(self, *names: str) -> list[JSON] | None:
        """Returns the first value of these fields, or None. Raises RowError if it is no list."""
        values: list[JSON] | None = self._first(names, (list,), "a list")
        return values

    def words(self, name: str) -> list[str] | None:
        """Returns the items of a list as text, or None. Raises RowError if the field is no list."""
        values = self.items(name)
        return None if values is None else [str(value) for value in values]

    def object(self, name: str) -> SourceRow:
        """Returns a nested object, empty if absent. Raises RowError on other types."""
        value = self._first((name,), (Mapping,), "an object")
        return SourceRow(value or {}, f"{self.prefix}{name}.", there=value is not None)

    def skip(self, *names: str) -> None:
        """Marks fields as used, so that they are not listed as unused."""
        self.used.update(names)

    def need(self, name: str, wish: str) -> RowError:
        """Returns a RowError which says that field `name` should be `wish`, such as "a string"."""
        value = self.get(name)
        return RowError(
            f"field {self.prefix}{name}: expected {wish}",
            "nothing" if value is None else excerpt(value),
        )

    def unused(self) -> list[str]:
        """Returns the names of fields that have a value and were never asked for."""
        return [
            f"{self.prefix}{name}"
            for name, value in self.values.items()
            if name not in self.used
            and not any(value is nothing or value == nothing for nothing in _EMPTY)
        ]

    def _first(self, names: Sequence[str], kinds: tuple[type, ...], wish: str) -> Any:
        for name in names:
            value = self.get(name)
            if value is None:
                continue
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise self.need(name, wish)
            return value
        return None
