"""Rows of a data set's file, whatever it is packed in: JSON lines, a JSON list, gzip, CSV, Parquet.

A mapping gives fields of the file the names that a reader knows; `a.b` names a field of an object.

Rows are streamed (a JSON list is not: it has to be held whole), so a reader that deduplicates can
take a file far larger than memory. What is packed may hold less at once than what lies there plain.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.parquet import MAX_COLUMNS, parquet_rows
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON
from meta_agent.domains.formats._fields import Fields, shown

PACKED_CHARS: Final = 32 << 20
PLAIN_CHARS: Final = 512 << 20
TABLE_CHARS: Final = 4 << 20


def stream_rows(path: Path, mapping: Mapping[str, str] | None = None) -> Iterator[Fields]:
    """Every row, with the line (or index from 1) where it stands, and fields renamed."""
    rows = _stream(path)
    return (mapped(fields, mapping) for fields in rows) if mapping else rows


def mapped(fields: Fields, mapping: Mapping[str, str]) -> Fields:
    """The row with these fields under the names of ours; both names are there afterwards."""
    found = {ours: _at(fields, theirs) for theirs, ours in mapping.items()}
    return Fields(fields.path, fields.line, {**fields.row, **found})


def _at(fields: Fields, name: str) -> JSON:
    value: JSON = fields.row
    for part in [name] if name in fields.row else name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ConfigError(
                f"{fields.path}:{fields.line}: --map names the field {name!r}, which is not in "
                f"this row; it has {', '.join(sorted(fields.row)[:12])}",
                hint="--map THEIRS=OURS, such as --map question=prompt,answer=gold",
            )
        value = value[part]
    return value


def _stream(path: Path) -> Iterator[Fields]:
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device, or a FIFO: no end
        raise ConfigError(f"the task file {path} is no regular file")
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    try:
        packed = _packed(path)
        most = PACKED_CHARS if packed else PLAIN_CHARS
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if packed
            else path.open(encoding="utf-8") as file
        ):
            first = file.read(1)
            while first.isspace():
                first = file.read(1)
            if path.suffix == ".csv":
                yield from _table(path, first, _bounded(path, file, TABLE_CHARS))
            elif first == "[":
                yield from _listed(path, first + _checked(path, file.read(most), most))
            else:
                yield from _lines(path, first, _bounded(path, file, most))
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise ConfigError(
            f"cannot read the task file {path}: {why}",
            hint="give JSON lines, a JSON list (gzipped or not), CSV with a header, or Parquet",
        ) from problem


def _bounded(path: Path, file: TextIO, most: int) -> Iterator[str]:
    """The lines of a file, of which none is read beyond its limit."""
    while line := file.readline(most):
        yield _checked(path, line, most)


def _checked(path: Path, text: str, most: int) -> str:
    if len(text) < most:
        return text
    raise ConfigError(
        f"{path} holds a line or list of more than {most} characters",
        hint="unpack it, and write it as JSON lines: jq -c '.[]' FILE > FILE.jsonl",
    )


def _packed(path: Path) -> bool:
    with path.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


def _lines(path: Path, first: str, file: Iterator[str]) -> Iterator[Fields]:
    for number, text in enumerate(itertools.chain([first + next(file, "")], file), 1):
        if text.strip():
            yield _object(path, number, _parsed(path, number, text))


def _table(path: Path, first: str, file: Iterator[str]) -> Iterator[Fields]:
    reader = csv.DictReader(itertools.chain([first + next(file, "")], file))
    try:
        if len(reader.fieldnames or ()) > MAX_COLUMNS:
            raise ConfigError(f"{path} has more than {MAX_COLUMNS} columns")
        for row in reader:
            yield Fields(path, reader.line_num, {str(k): v for k, v in row.items() if k})
    except csv.Error as problem:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV ({problem})") from problem


def _listed(path: Path, text: str) -> Iterator[Fields]:
    rows = _parsed(path, 1, text)
    assert isinstance(rows, list), "it begins with a bracket"
    for number, row in enumerate(rows, 1):
        yield _object(path, number, row)


def _parsed(path: Path, number: int, text: str) -> JSON:
    try:
        return document(text, halves=False)
    except ValueError as problem:
        raise ConfigError(f"{path}:{number}: not JSON ({problem}): {shown(text)}") from problem


def _object(path: Path, number: int, row: JSON) -> Fields:
    if not isinstance(row, dict):
        raise ConfigError(f"{path}:{number}: expected an object, got {shown(row)}")
    return Fields(path, number, row)


def _parquet(path: Path) -> Iterator[Fields]:
    for number, row in enumerate(parquet_rows(path), 1):
        yield Fields(path, number, row)
