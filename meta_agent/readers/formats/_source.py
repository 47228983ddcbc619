"""Files as a stream of values: JSON lines (plain, gzip, zstd), one JSON document, Parquet, or the
zip archive that is an Inspect log, sample by sample.

Promises: lines and Parquet batches are read one after the other, so memory does not grow with the
file; a line or document above its limit is refused by name. A document (`.traj`, a map of
predictions) has to be held whole.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, cast

import zstandard

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.parquet import parquet_rows
from meta_agent.core.parsing.strict import document
from meta_agent.readers.formats._format import Placed

LINE_LIMIT_BYTES: Final = 256 << 20
DOCUMENT_LIMIT_BYTES: Final = 512 << 20
PACKED_LIMIT_BYTES: Final = 64 << 20
"""Of a line or document that is packed: a file of a few kilobytes may be as large as any."""
_HEAD_BYTES: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PACKED: Final = (_GZIP, _ZSTD)
_UNPACK: Final = "unpack it, or write it as JSON lines: jq -c '.[]' FILE > FILE.jsonl"
_HEADERS: Final = ("header.json", "_journal/start.json", "start.json")
_DAMAGE: Final = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
_ZIP_DAMAGE: Final = (*_DAMAGE, zipfile.BadZipFile, lzma.LZMAError, OSError, ValueError)
"""What comes of damage to an archive, by where it is and how a member is packed."""
SUFFIXES: Final = (
    *(".jsonl", ".json", ".traj", ".parquet", ".ndjson"),
    *(".eval", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst"),
)


class Source(NamedTuple):
    """A file to read. `name` is what places in it are called by: unique in a folder.

    `beside` is a document that belongs to each of its values, by the field it is attached as.
    """

    path: Path
    name: str
    in_folder: bool = False
    beside: tuple[str, Path] | None = None


def sources_of(path: Path) -> list[Source]:
    """The file itself, or what a folder holds of known endings, sorted."""
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
        if not found:
            raise ConfigError(
                f"{path} holds no file that ends in {', '.join(SUFFIXES)}",
                hint="a file of another ending is read when it is named itself",
            )
        return [Source(p, p.relative_to(path).as_posix(), True) for p in found]
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    return [Source(path, path.name)]


def values(source: Source) -> Iterator[Placed]:
    """Every value of the file, in order. A value that is no JSON comes as a `BadLine`."""
    attached: dict[str, object] = {}
    if source.beside is not None:
        field, path = source.beside
        try:
            attached = {field: _document(path)}
        except ConfigError:
            yield Placed(source.name, BadLine(f"{path.name} beside it is damaged"))
    for placed in _values(source.path, source.name):
        value = placed.value
        whole = attached and isinstance(value, dict)
        yield Placed(placed.place, {**value, **attached}) if whole else placed


def _values(path: Path, name: str) -> Iterator[Placed]:
    mark = head_of(path)[:4]
    if path.suffix == ".parquet" or mark == b"PAR1":
        yield from _parquet(path, name)
    elif mark == b"PK\x03\x04":
        yield from _archive(path, name)
    elif _is_lines(path):
        yield from _lines(path, name)
    else:
        yield Placed(name, _document(path))


class BadLine:
    """A line that could not be parsed, with the reason to count it by."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def head_of(path: Path) -> bytes:
    """The file's first bytes, unpacked; fewer where that is all, none where they are damaged."""
    with _opened(path) as file:
        try:
            return file.read1(_HEAD_BYTES)
        except _DAMAGE:
            return b""


def _is_lines(path: Path) -> bool:
    """One value a line, unless the first line is but the beginning of one, or a list."""
    first, newline, rest = head_of(path).lstrip().partition(b"\n")
    if first.startswith(b"["):
        return False
    try:
        document(first)
    except ValueError:
        # Pretty-printed: the first line opens an object and the next one is indented. A first line
        # that is broken or longer than our look is still a line.
        opens = first.rstrip().endswith((b"{", b"["))
        return not (newline and opens and rest[:1] in (b" ", b"\t", b"\r", b"\n"))
    return True


def _lines(path: Path, name: str) -> Iterator[Placed]:
    most = _limit(path, LINE_LIMIT_BYTES)
    with _opened(path) as file:
        number = 0
        while line := _line(file, most):
            number += 1
            if isinstance(line, BadLine):
                yield Placed(f"{name}:{number}", line)
                return
            if len(line) >= most and not line.endswith(b"\n"):
                raise ConfigError(f"{path}:{number}: a line above {most >> 20} MiB", hint=_UNPACK)
            if line.strip():
                yield Placed(f"{name}:{number}", _parsed(line))


def _limit(path: Path, plain: int) -> int:
    with path.open("rb") as raw:
        return PACKED_LIMIT_BYTES if raw.read(4).startswith(_PACKED) else plain


def _line(file: io.BufferedReader, most: int) -> bytes | BadLine:
    """The next line; of a packed file that was cut short, the end of what can be read."""
    try:
        return file.readline(most)
    except _DAMAGE:
        return BadLine("the packed file is damaged: what comes after this is lost")


def _parsed(line: bytes) -> object:
    try:
        return _loads(line)
    except UnicodeDecodeError:
        return BadLine("the line is not UTF-8")
    except ValueError:
        return BadLine("the line is not JSON")


def _loads(text: bytes) -> object:
    """`NaN` and `Infinity`, which Python writes though JSON has none, become null."""
    return document(text, parse_constant=lambda _: None)


def _document(path: Path) -> object:
    most = _limit(path, DOCUMENT_LIMIT_BYTES)
    with _opened(path) as file:
        try:
            text = file.read(most + 1)
        except _DAMAGE as error:
            raise ConfigError(f"{path} is packed and damaged: {error}") from error
    if len(text) > most:
        raise ConfigError(f"{path} is one JSON document above {most >> 20} MiB", hint=_UNPACK)
    try:
        return _loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is neither JSON nor JSON lines: {error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    try:
        raw = path.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    with raw, _unpacked(raw) as file:
        yield file


@contextmanager
def _unpacked(raw: io.BufferedReader) -> Iterator[io.BufferedReader]:
    """By the first bytes: files are renamed more often than they are repacked."""
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


def _archive(path: Path, name: str) -> Iterator[Placed]:
    """An Inspect log: its header goes with each sample, which is one log of one sample."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            header = next((one for one in _HEADERS if one in members), None)
            if header is None:
                raise ConfigError(f"{path} is a zip archive, and no Inspect log: unpack it first")
            about = _member(archive, header)
            told: dict[str, object] = about if isinstance(about, dict) else {}
            evaluation = told.get("eval")
            status = told.get("status") if header == _HEADERS[0] else "started"
            for member in members:
                if member.startswith("samples/") and member.endswith(".json"):
                    sample = _member(archive, member)
                    log = {"eval": evaluation, "status": status, "samples": [sample]}
                    bad = isinstance(sample, BadLine)
                    yield Placed(f"{name}:{member}", sample if bad else log)
    except (*_ZIP_DAMAGE, NotImplementedError) as error:
        raise ConfigError(
            f"{path} is a damaged zip archive: {error}",
            hint="of an Inspect run that was cut short: inspect log recover",
        ) from error


def _member(archive: zipfile.ZipFile, name: str) -> object:
    try:
        with archive.open(name) as file:
            text = file.read(PACKED_LIMIT_BYTES + 1)
    except NotImplementedError:  # zstd in zip is read by Python 3.14 and later
        return BadLine("packed in a way unknown here (try: inspect log convert --to json)")
    except (*_ZIP_DAMAGE, RuntimeError):  # RuntimeError: it has a password
        return BadLine("damaged inside the archive")
    if len(text) > PACKED_LIMIT_BYTES:
        return BadLine(f"a sample above {PACKED_LIMIT_BYTES >> 20} MiB")
    return _parsed(text)


def _parquet(path: Path, name: str) -> Iterator[Placed]:
    for number, row in enumerate(parquet_rows(path), 1):
        yield Placed(f"{name}:{number}", row)
