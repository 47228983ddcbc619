"""The one protocol of all formats: recognise a row, read it, and (some of them) write it.

A reader gets one row at a time and returns a `Draft` or raises `RowError`; it never sees the file,
so no format can need more memory than its largest row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._row import Row

CERTAIN: Final = 3
Count = Callable[[str], None]
Writer = Callable[[Iterable[Rollout], Path], int]


@dataclass(frozen=True, slots=True)
class Placed:
    """A value of a file and where it stands: a line, an index, or the whole file."""

    place: str
    value: JSON


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write rollouts down.

    `marks` says in words how it is recognised. `claims` gives 0 (not this format) to
    `CERTAIN`. `expand` turns one value of the file into rows (a map of predictions is many),
    `gather` all values into rows (events of a log).
    `cannot_carry` names what an export loses, by the record's fields. Of a format of `dialogues` a
    rollout without messages is not written: read again, its silence would be the model's.
    """

    name: str
    what: str
    marks: str
    claims: Callable[[JSON], int]
    read: Callable[[Row, Count], Draft]
    write: Writer | None = None
    expand: Callable[[Placed], Iterator[Placed]] | None = None
    gather: Callable[[Iterable[Placed]], Iterator[Placed]] | None = None
    layout: Literal["lines", "document", "parquet"] = "lines"
    cannot_carry: frozenset[str] = frozenset()
    dialogues: bool = False


def has(value: JSON, *names: str) -> bool:
    """An object that holds all these fields."""
    return isinstance(value, dict) and all(name in value for name in names)
