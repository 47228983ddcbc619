"""Typed access to one row of somebody else's file; every complaint names field, wish and value.

A `RowError` makes its row a counted, skipped one; it never ends an import.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_agent.core.protocols import JSON

_SHOWN_CHARS = 60


class RowError(Exception):
    """This row is not what its format says. The text is stable enough to be counted by."""

    def __init__(self, reason: str, shown: str = "") -> None:
        super().__init__(f"{reason}, got {shown}" if shown else reason)
        self.reason = reason
        self.shown = shown


def finite(value: JSON) -> float | None:
    """A number as a float; None for what is none, is not finite, or fits no float."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON has integers of any length
        return None
    return number if math.isfinite(number) else None


def shown(value: JSON) -> str:
    """A value as a complaint shows it."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


@dataclass(slots=True)
class Row:
    """An object of a file; false where it is a nested one that is not there, and holds nothing.

    `used` collects the fields that were asked for.
    """

    values: Mapping[str, JSON]
    prefix: str = ""
    used: set[str] = field(default_factory=set)
    there: bool = True

    def __bool__(self) -> bool:
        return self.there

    def get(self, name: str) -> JSON:
        """The value, None where absent."""
        self.used.add(name)
        return self.values.get(name)

    def text(self, *names: str) -> str | None:
        """The first of several spellings that is there, as a string."""
        found: str | None = self._first(names, (str,), "a string")
        return found

    def label(self, *names: str) -> str | None:
        """A name or a number, as a string."""
        value = self._first(names, (str, int), "a string or a whole number")
        return None if value is None else str(value)

    def integer(self, *names: str) -> int | None:
        found: int | None = self._first(names, (int,), "a whole number")
        return found

    def flag(self, *names: str) -> bool | None:
        """True or false, or the 1 and 0 that tables write for them."""
        name = next((name for name in names if self.get(name) is not None), None)
        value = None if name is None else self.values[name]
        if value is None or value is True or value is False:
            return value
        if not isinstance(value, int | float) or value not in (0, 1):
            raise self.need(str(name), "true or false")
        return bool(value)

    def number(self, *names: str) -> float | None:
        """A finite number; NaN counts as absent, for that is how tables write it."""
        return finite(self._first(names, (int, float, bool), "a number"))

    def items(self, name: str) -> list[JSON] | None:
        found: list[JSON] | None = self._first((name,), (list,), "a list")
        return found

    def words(self, name: str) -> list[str] | None:
        """A list as texts."""
        found = self.items(name)
        return None if found is None else [str(one) for one in found]

    def object(self, name: str) -> Row:
        """A nested object as a row of its own."""
        value = self._first((name,), (Mapping,), "an object")
        return Row(value or {}, f"{self.prefix}{name}.", there=value is not None)

    def skip(self, *names: str) -> None:
        """Fields that no record has a place for, and that nobody misses."""
        self.used.update(names)

    def need(self, name: str, wanted: str) -> RowError:
        """The complaint about a field that must be there or be something else."""
        found = shown(self.values[name]) if name in self.values else "nothing"
        return RowError(f"field {self.prefix}{name}: expected {wanted}", found)

    def unused(self) -> list[str]:
        """Fields with a value that nobody asked for."""
        empty: tuple[JSON, ...] = (None, "", [], {})
        return [
            f"{self.prefix}{name}"
            for name, value in self.values.items()
            if name not in self.used and not any(value is e or value == e for e in empty)
        ]

    def _first(self, names: Sequence[str], kinds: tuple[type, ...], wanted: str) -> Any:
        for name in names:
            value = self.get(name)
            if value is None:
                continue
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise self.need(name, wanted)
            return value
        return None
