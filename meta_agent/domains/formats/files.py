"""The one reader of bytes for task files and rollouts: a file in, a stream of values out.

Read are JSON lines and one JSON document (plain, gzip, zstd), CSV with a header, and Parquet. The
first bytes say how a file is packed, not its name. A byte order mark is no part of the text.

Promises: lines and Parquet batches are read one after the other, so memory does not grow with the
file. A line or a document above its limit raises a `ConfigError` that names the file. A document
(a list, a trajectory, a map) has to be held whole.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, cast

import zstandard

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.parquet import MAX_COLUMNS, parquet_rows
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON

LINE_LIMIT_BYTES: Final = 256 << 20
DOCUMENT_LIMIT_BYTES: Final = 512 << 20
PACKED_LIMIT_BYTES: Final = 64 << 20
"""Of a line or document that is packed: a file of a few kilobytes may be as large as any."""
TABLE_LIMIT_BYTES: Final = 4 << 20
_HEAD_BYTES: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_UNPACK_HINT: Final = "unpack it, or write it as JSON lines: jq -c '.[]' FILE > FILE.jsonl"
_COPY_HINT: Final = "name a file on disk; save what a pipe or device gives to a file first"
_PACK_HINT: Final = "pack the file again, or give it unpacked"
DAMAGE: Final = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)


class Placed(NamedTuple):
    """A JSON value read from a file, and its place there, such as `tasks.jsonl:7`."""

    place: str
    value: JSON
    line: int = 1


class BadLine(NamedTuple):
    """A line that is no JSON: why (`reason`), and the parser's message with the line's start."""

    reason: str
    text: str = ""


class PointerError(ConfigError):
    """Raised if a file is a Git LFS pointer: its content was never downloaded."""


def values(path: Path, name: str = "", *, halves: bool = True) -> Iterator[Placed]:
    """Yields every JSON value or table row of a file in order, or a `BadLine` for a broken line.

    The `place` of a value begins with `name`. Without `halves`, text with half a surrogate pair is
    no JSON. Raises `ConfigError` if the file cannot be read.
    """
    name = name or path.name
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device, or a FIFO: no end
        raise ConfigError(f"{path} is not a regular file", hint=_COPY_HINT)
    head = head_of(path)
    _refuse_other_text(path, head)
    if path.suffix == ".parquet" or head[:4] == b"PAR1":
        for number, row in enumerate(parquet_rows(path), 1):
            yield Placed(f"{name}:{number}", row, number)
    elif path.suffix == ".csv":
        yield from _table(path, name)
    elif _is_lines(head):
        yield from _lines(path, name, halves)
    else:
        yield Placed(name, read_document(path, halves=halves))


def _refuse_other_text(path: Path, head: bytes) -> None:
    if head.startswith(_POINTER):
        raise PointerError(
            f"{path} is a Git LFS pointer: its content was not downloaded", hint="git lfs pull"
        )
    if head.startswith(_UTF16):
        raise ConfigError(
            f"{path} is UTF-16 text", hint=f"iconv -f UTF-16 -t UTF-8 {path} > utf8-{path.name}"
        )


def head_of(path: Path) -> bytes:
    """Returns the first 64 KiB of a file, decompressed, without byte order mark; b"" if damaged."""
    with _opened(path) as file:
        try:
            return file.read1(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8)
        except DAMAGE:
            return b""


def _is_lines(head: bytes) -> bool:
    """Returns whether a file begins with JSON lines, and not with a list or an indented value."""
    first, newline, rest = head.lstrip().partition(b"\n")
    if first.startswith(b"["):
        return False
    try:
        document(first)
    except ValueError:
        # Pretty-printed: the first line opens an object and the next one is indented. A first line
        # that is broken or longer than the head is still a line.
        opens = first.rstrip().endswith((b"{", b"["))
        return not (newline and opens and rest[:1] in (b" ", b"\t", b"\r", b"\n"))
    return True


def _lines(path: Path, name: str, halves: bool) -> Iterator[Placed]:
    for number, line in _bounded(path, _limit(path, LINE_LIMIT_BYTES)):
        value = line if isinstance(line, BadLine) else parsed(line, halves=halves)
        if isinstance(line, BadLine) or line.strip():
            yield Placed(f"{name}:{number}", value, number)


def _bounded(path: Path, limit: int) -> Iterator[tuple[int, bytes | BadLine]]:
    """Yields lines with their numbers. Of a packed file that was cut short, the last is bad."""
    with _opened(path) as file:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(limit)
            except DAMAGE:
                yield number, BadLine("the packed file is damaged: what comes after this is lost")
                return
            if not line:
                return
            if len(line) >= limit and not line.endswith(b"\n"):
                raise ConfigError(
                    f"{path}:{number}: a line is over {limit >> 20} MiB", hint=_UNPACK_HINT
                )
            yield number, line.removeprefix(codecs.BOM_UTF8)


def _table(path: Path, name: str) -> Iterator[Placed]:
    reader = csv.DictReader(_texts(path))
    try:
        if len(reader.fieldnames or ()) > MAX_COLUMNS:
            problem = f"{path} has {len(reader.fieldnames or ())} columns, over {MAX_COLUMNS}"
            raise ConfigError(problem, hint="leave out the columns that no task needs")
        for row in reader:
            if None in row:  # a comma in a text without quotes shifts all cells after it
                raise ConfigError(
                    f"{path}:{reader.line_num} has {len(row) - 1 + len(row[None])} cells, but the "
                    f"header names {len(row) - 1} columns",
                    hint="put texts that hold a comma in double quotes",
                )
            pairs = {str(column): value for column, value in row.items() if column}
            yield Placed(f"{name}:{reader.line_num}", pairs, reader.line_num)
    except csv.Error as problem:
        why = f"{path}:{reader.line_num} is not valid CSV: {problem}"
        raise ConfigError(why, hint="save it again as CSV, or as JSON lines") from problem


def _texts(path: Path) -> Iterator[str]:
    for number, line in _bounded(path, TABLE_LIMIT_BYTES):
        if isinstance(line, BadLine):
            raise ConfigError(f"{path}:{number}: {line.reason}", hint=_PACK_HINT)
        try:
            yield line.decode()
        except UnicodeDecodeError as problem:
            why = f"cannot read {path}: line {number} is not UTF-8"
            raise ConfigError(why, hint="save the file as UTF-8: iconv -t UTF-8") from problem


def _limit(path: Path, plain: int) -> int:
    with path.open("rb") as raw:
        return PACKED_LIMIT_BYTES if raw.read(4).startswith((_GZIP, _ZSTD)) else plain


def parsed(line: bytes, *, halves: bool = True) -> JSON:
    """Returns a line's JSON value, or a `BadLine`; `halves` allows half a surrogate pair."""
    try:
        return _loads(line, halves)
    except UnicodeDecodeError:
        return BadLine("the line is not UTF-8")
    except ValueError as problem:
        return BadLine(
            "the line is not JSON", f"{problem}: {line[:400].decode('utf-8', 'replace')}"
        )


def _loads(text: bytes, halves: bool) -> JSON:
    """Returns a JSON value. `NaN` and `Infinity`, which JSON has not, become null."""
    text = text.removeprefix(codecs.BOM_UTF8)
    return document(text if halves else text.decode(), halves=halves, parse_constant=lambda _: None)


def read_document(path: Path, *, halves: bool = True) -> JSON:
    """Returns the value of a JSON file. Raises `ConfigError` if it is not JSON or too large.

    Without `halves`, text with half a surrogate pair is no JSON.
    """
    limit = _limit(path, DOCUMENT_LIMIT_BYTES)
    with _opened(path) as file:
        try:
            text = file.read(limit + 1)
        except DAMAGE as error:
            why = f"the packed file {path} is damaged: {error}"
            raise ConfigError(why, hint=_PACK_HINT) from error
    if len(text) > limit:
        raise ConfigError(f"{path} is one JSON document over {limit >> 20} MiB", hint=_UNPACK_HINT)
    try:
        return _loads(text, halves)
    except ValueError as error:
        why = f"{path} is neither JSON nor JSON lines: {error}"
        raise ConfigError(why, hint="correct it; jq . FILE shows where it breaks") from error


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    try:
        raw = path.open("rb")
    except OSError as error:
        why = f"cannot read {path}: {error.strerror}"
        raise ConfigError(why, hint="check the path and its rights: ls -ld") from error
    with raw, _unpacked(raw) as file:
        yield file


@contextmanager
def _unpacked(raw: io.BufferedReader) -> Iterator[io.BufferedReader]:
    """Opens a file by its first bytes, because files are renamed more often than repacked."""
    mark = raw.read(4)
    raw.seek(0)
    if mark.startswith(_GZIP):
        with gzip.GzipFile(fileobj=raw) as unpacked:
            # It has a buffer of its own; a larger one around it would lose what came before damage.
            yield cast("io.BufferedReader", unpacked)
    elif mark == _ZSTD:
        # A store's shards are one frame each; `zstd` concatenates.
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        with reader:
            yield io.BufferedReader(cast("io.RawIOBase", reader), 1 << 20)
    else:
        yield raw
