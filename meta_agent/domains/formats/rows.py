"""Rows of task files: typed access to their fields, their splits, and the file as a whole.

Every complaint about a field names file, line, field and value. A row states its split, or a hash
of what makes the task this task decides, so a task never moves to another split.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON, SPLITS, Split
from meta_agent.domains.formats.files import BadLine, values

_SHOWN_CHARS = 80
_SHOWN_FIELDS = 12
FORMS = "give JSON lines, a JSON list (packed or not), CSV with a header, or Parquet"


class _TaskRow(Protocol):
    @property
    def split(self) -> Split: ...
    @property
    def line(self) -> int: ...


Row = TypeVar("Row", bound=_TaskRow)


def json_excerpt(value: JSON) -> str:
    """Returns a value as JSON text of at most 80 characters, for an error message."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


@dataclass(frozen=True, slots=True)
class Fields:
    """A row of a task file, with typed access to fields. `mapped` names those that `--map` set."""

    path: Path
    line: int
    row: Mapping[str, JSON]
    mapped: frozenset[str] = frozenset()

    @property
    def names(self) -> str:
        """Returns the names of the row's first few fields, for an error message."""
        return ", ".join(sorted(self.row)[:_SHOWN_FIELDS])

    def need(self, name: str, wish: str, *, hint: str | None = None) -> ConfigError:
        """Returns a ConfigError that says: the field `name` is not `wish` (such as "a string")."""
        value = f"got {json_excerpt(self.row[name])}" if name in self.row else "it is missing"
        return self.refused(f"field {name}: expected {wish}, {value}", hint=hint)

    def refused(self, why: str, *, hint: str | None = None) -> ConfigError:
        """Returns an error that names the row's file and line, and says why it is unusable."""
        return ConfigError(f"{self.path}:{self.line}: {why}", hint=hint)

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a field's string or, if absent, `default`. ConfigError if neither is a string."""
        value = self.row.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.need(name, "a non-empty string" if default is None else "a string")
        return value

    def optional_text(self, *names: str) -> str | None:
        """Returns the first present field of `names`, or None. ConfigError if it is no string."""
        return next((self.text(name) for name in names if self.row.get(name) is not None), None)

    def label(self, *names: str) -> str | None:
        """Returns the first of the fields `names` that has a value, as a string, or None."""
        values = (self.row.get(name) for name in names)
        return next((str(value) for value in values if value is not None), None)

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Returns a field's strings, from a list or its JSON text. ConfigError for other values."""
        value = self.row.get(name)
        if value is None and default is not None:
            return default
        wish = "a list of strings (or a JSON string of one)"
        value = self.json(name, wish)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self.need(name, wish)
        return tuple(value)

    def json(self, name: str, wish: str) -> JSON:
        """Returns a field, parsed if it is text. Bad JSON raises ConfigError: expected `wish`."""
        value = self.row.get(name)
        try:
            return document(value) if isinstance(value, str) else value
        except ValueError as problem:
            raise self.need(name, wish) from problem

    def nested(self, name: str) -> Fields | None:
        """Returns a field that holds an object, or None. Raises ConfigError for other values."""
        value = self.row.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.need(name, "an object")
        return None if value is None else Fields(self.path, self.line, value)

    def renamed(self, mapping: Mapping[str, str]) -> Fields:
        """Returns the row with fields copied to new names. ConfigError if a field is absent."""
        ours = {our_name: self._at(name) for name, our_name in mapping.items()}
        return Fields(self.path, self.line, {**self.row, **ours}, frozenset(ours))

    def _at(self, name: str) -> JSON:
        value: JSON = self.row
        for part in [name] if name in self.row else name.split("."):
            if not isinstance(value, dict) or part not in value:
                why = f"--map names the field {name!r}, which this row does not have"
                raise self.refused(
                    f"{why}; it has {self.names}",
                    hint="--map THEIR_FIELD=OUR_FIELD, such as --map question=prompt,answer=gold",
                )
            value = value[part]
        return value


def stream_rows(path: Path, mapping: Mapping[str, str] | None = None) -> Iterator[Fields]:
    """Yields the rows of a task file, one by one; `mapping` is {name in the file: our name}.

    Raises `ConfigError` at the first row that is no JSON object. Only a JSON list is held whole.
    """
    for fields in _rows(path):
        yield fields.renamed(mapping) if mapping else fields


def _rows(path: Path) -> Iterator[Fields]:
    try:
        for placed in values(path, halves=False):
            value = placed.value
            if isinstance(value, BadLine):
                why = f"the line is not JSON ({value.text})" if value.text else value.reason
                raise ConfigError(f"{path}:{placed.line}: {why}", hint=FORMS)
            listed = isinstance(value, list)
            for number, row in enumerate(
                value if listed else [value], 1 if listed else placed.line
            ):
                if not isinstance(row, dict):
                    why = f"{path}:{number}: expected an object, got {json_excerpt(row)}"
                    raise ConfigError(why, hint=FORMS)
                yield Fields(path, number, row)
    except ConfigError as problem:
        problem.hint = problem.hint or FORMS
        raise


# Share of hash space for each split, in percent; the order is part of the evaluator's identity.
BUCKETS: tuple[tuple[Split, int], ...] = (
    ("train", 40),
    ("search", 20),
    ("confirm", 20),
    ("vault", 20),
)


def hashed_split(key: str) -> Split:
    """Returns the split of a task by its hexadecimal hash: 40 % train, 20 % each of the others."""
    point = int(key[:8], 16) % 100
    for split, share in BUCKETS:
        point -= share
        if point < 0:
            return split
    raise AssertionError("the shares add up to 100")


def split_of(fields: Fields, key: str) -> Split:
    """Returns the split that a row names (such as train), else the split of the hash `key`."""
    return next((split for split in SPLITS if fields.row.get("split") == split), hashed_split(key))


def explicit_split(fields: Fields) -> Split | None:
    """Returns the split that a row names, or None. Raises `ConfigError` for an unknown split."""
    value = fields.row.get("split")
    for split in SPLITS:
        if value == split:
            return split
    if value is None:
        return None
    raise fields.need("split", f"one of {', '.join(SPLITS)}")


class RefusedRowError(Exception):
    """Raised if a row is no task that can be graded; the file's other rows are still read."""


@dataclass(slots=True)
class TaskFile(Generic[Row]):
    """The usable rows of a task file, with counts and reasons of rows that were left out."""

    path: Path
    rows: list[Row] = field(default_factory=list)
    read: int = 0
    duplicates: int = 0
    splits_stated: bool = False
    """Whether any row says which split it is in. If none does, a hash decides."""
    refused: dict[int, str] = field(default_factory=dict)  # line -> why
    other_splits: Counter[str] = field(default_factory=Counter)
    """Rows by the split that they name, if it is none of ours: then a hash decides."""
    rows_of: dict[bytes, list[Row]] = field(default_factory=dict)
    """The usable rows by a hash of their text without blanks and capitals."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns sentences on the rows that were left out: reasons, counts and the first lines."""
        notes = []
        if self.duplicates:
            notes.append(f"{self.duplicates} of {self.read} rows repeat an earlier problem")
        for why in sorted(set(self.refused.values())):
            lines = [line for line, reason in self.refused.items() if reason == why]
            first = ", ".join(map(str, lines[:3]))
            notes.append(f"{len(lines)} rows refused: {why} (first lines: {first})")
        for name, count in self.other_splits.items():
            notes.append(
                f"{count} rows name the split {name!r}, which is none of {', '.join(SPLITS)}: "
                "a hash deals them to splits"
            )
        return (*notes, *self._in_several_splits())

    def _in_several_splits(self) -> Iterator[str]:
        for rows in self.rows_of.values():
            splits = [split for split in SPLITS if any(row.split == split for row in rows)]
            if len(splits) > 1:
                lines = ", ".join(str(row.line) for row in rows[:_SHOWN_FIELDS])
                yield f"one prompt is in {', '.join(splits)} (lines {lines}): keep it in one"


def collected(
    path: Path,
    rows: Iterable[Fields],
    read: Callable[[Fields], Row],
    content: Callable[[Row], str],
    text: Callable[[Row], str],
    repeated: Callable[[TaskFile[Row], Row, Row], None] = lambda task_file, first, row: None,
) -> TaskFile[Row]:
    """Returns the tasks that `read` makes of rows. Of rows with equal `content`, the first stays.

    Rows with equal `text` (blanks and capitals apart) in several splits are named in `notes`.

    If `read` raises RefusedRowError, the row is left out and its line noted. Each repetition is
    passed to `repeated`. Raises `ConfigError`, which names `path`, if no row can be used.
    """
    task_file = TaskFile[Row](path)
    first_of: dict[str, Row] = {}
    for fields in rows:
        task_file.read += 1
        try:
            row = read(fields)
        except RefusedRowError as refusal:
            task_file.refused[fields.line] = str(refusal)
            continue
        stated = fields.row.get("split")
        task_file.splits_stated |= stated in SPLITS
        if isinstance(stated, str) and stated and stated not in SPLITS:
            task_file.other_splits[stated] += 1
        first = first_of.setdefault(content(row), row)
        if first is row:
            task_file.rows.append(row)
            plain = "".join(text(row).split()).casefold().encode("utf-8", "replace")
            alike = hashlib.blake2b(plain, digest_size=16).digest()
            task_file.rows_of.setdefault(alike, []).append(row)
        else:
            task_file.duplicates += 1
            repeated(task_file, first, row)
    if not task_file.rows:
        why = f"no usable problem: {'; '.join(task_file.notes)}" if task_file.read else ""
        hint = "correct the rows, or grade them yourself: --grade FILE.py" if why else FORMS
        raise ConfigError(f"{path} holds {why or 'no task: it is empty'}", hint=hint)
    return task_file
