"""Lists the files to read, and yields their values.

It adds to `domains.formats.files` the zip archive of an Inspect log, documents that belong to the
rows of another file, and rows with other field names (`--map`).

Does not cover: several turns in one cell of a row; those have formats of their own.
"""

from __future__ import annotations

import hashlib
import lzma
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.core.task_splits import pairs_of
from meta_agent.domains.formats.files import (
    DAMAGE,
    PACKED_LIMIT_BYTES,
    BadLine,
    Placed,
    head_of,
    parsed,
    read_document,
)
from meta_agent.domains.formats.files import values as values_of
from meta_agent.domains.formats.rows import stream_rows
from meta_agent.readers.formats._format import AttachedFile
from meta_agent.readers.formats._row import as_object

_HEADERS: Final = ("header.json", "_journal/start.json", "start.json")
_ZIP_DAMAGE: Final = (*DAMAGE, zipfile.BadZipFile, lzma.LZMAError, OSError, ValueError)
"""What comes of damage to an archive, by where it is and how a member is packed."""
OUR_FIELDS: Final = ("prompt", "completion", "reward", "example_id", "task")
SUFFIXES: Final = (
    *(".jsonl", ".json", ".traj", ".parquet", ".ndjson"),
    *(".eval", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst"),
)


class Source(NamedTuple):
    """A file to read; `name` is its name in messages.

    `beside` holds a field's name and a second file; each value gets its content in that field.
    """

    path: Path
    name: str
    in_folder: bool = False
    beside: tuple[str, Path] | None = None


def sources_of(path: Path) -> list[Source]:
    """Returns the file itself, or a folder's files with known endings, sorted.

    Raises `ConfigError` if there is no such file.
    """
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
        if not files:
            raise ConfigError(
                f"the folder {path} has no file that ends in {', '.join(SUFFIXES)}",
                hint="to read a file with another ending, name the file itself",
            )
        return [Source(file, file.relative_to(path).as_posix(), True) for file in files]
    if not path.is_file():
        raise ConfigError(
            f"the rollouts {path} do not exist", hint="give a file or folder: --rollouts PATH"
        )
    return [Source(path, path.name)]


def with_attached(sources: list[Source], pairs: list[AttachedFile]) -> list[Source]:
    """Returns each file once; a file that `pairs` add to another becomes that one's `beside`."""
    paths = {source.path for source in sources}
    unique = {source.path.resolve(): source for source in reversed(sources)}
    files = [source._replace(beside=_beside(source, paths, pairs)) for source in unique.values()]
    attached = {source.beside[1] for source in files if source.beside}
    return [source for source in reversed(files) if source.path not in attached]


def _beside(source: Source, paths: set[Path], pairs: list[AttachedFile]) -> tuple[str, Path] | None:
    """Returns the field and the file that is added to a source, also if that one alone is named."""
    for pair in pairs:
        other = source.path.parent / pair.beside
        is_there = other in paths or (not source.in_folder and other.is_file())
        if source.path.name == pair.file and is_there:
            return pair.field, other
    return None


def values(source: Source, mapping: Mapping[str, str] | None = None) -> Iterator[Placed]:
    """Yields every value of the file in order, with its place. Text that is no JSON is a `BadLine`.

    `mapping`, from the file's field names to a rollout's, renames the fields of each row.
    """
    if mapping is not None:
        yield from _mapped(source, mapping)
        return
    attached: dict[str, JSON] = {}
    if source.beside is not None:
        field, path = source.beside
        try:
            attached = {field: read_document(path)}
        except ConfigError:
            yield Placed(source.name, BadLine(f"{path.name} beside it is damaged"))
    zipped = head_of(source.path)[:4] == b"PK\x03\x04"
    read = _archive if zipped else values_of
    for placed in read(source.path, source.name):
        whole = attached and isinstance(placed.value, dict)
        yield placed._replace(value={**placed.value, **attached}) if whole else placed


def parse_map(text: str) -> dict[str, str]:
    """Returns a dict from a file's fields to a rollout's, for "input=prompt,score=reward".

    Raises `ConfigError` if the text is malformed or names a field that no rollout has.
    """
    try:
        mapping = pairs_of(text)
    except ValueError as error:
        raise ConfigError(f"--map {text}: {error}") from error
    if unknown := sorted(set(mapping.values()) - set(OUR_FIELDS)):
        raise ConfigError(
            f"--map names {unknown[0]!r}, which is not a field of a rollout",
            hint=f"choose from these fields: {', '.join(OUR_FIELDS)}",
        )
    return mapping


def _mapped(source: Source, mapping: Mapping[str, str]) -> Iterator[Placed]:
    """Yields a file's rows with renamed fields. Raises `ConfigError` if a reward is no number."""
    for fields in stream_rows(source.path, mapping):
        row = {name: fields.row[name] for name in mapping.values()}
        if "reward" in row:
            try:
                row["reward"] = float(row["reward"])
            except (TypeError, ValueError) as error:
                raise fields.refused(f"the reward {row['reward']!r:.40} is not a number") from error
        prompt = str(row.get("prompt", ""))
        row["prompt"] = [{"role": "user", "content": prompt}]
        row["completion"] = [{"role": "assistant", "content": str(row.get("completion", ""))}]
        row.setdefault("example_id", hashlib.sha256(prompt.encode()).hexdigest()[:16])
        row.setdefault("task", "rows")
        yield Placed(f"{source.name}:{fields.line}", row, fields.line)


def _archive(path: Path, name: str) -> Iterator[Placed]:
    """Yields each sample of an Inspect log with the log's header."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            header = next((member for member in _HEADERS if member in members), None)
            if header is None:
                raise ConfigError(f"{path} is a zip archive, but no Inspect log; unpack it first")
            about = as_object(_member(archive, header))
            status = about.get("status") if header == _HEADERS[0] else "started"
            log: dict[str, JSON] = {"eval": about.get("eval"), "status": status, "samples": []}
            samples = [m for m in members if m.startswith("samples/") and m.endswith(".json")]
            for member in samples:
                sample = _member(archive, member)
                bad = isinstance(sample, BadLine)
                yield Placed(f"{name}:{member}", sample if bad else {**log, "samples": [sample]})
            if not samples:
                yield Placed(name, log)
    except (*_ZIP_DAMAGE, NotImplementedError) as error:
        raise ConfigError(
            f"the zip archive {path} is damaged: {error}",
            hint="if it is an Inspect run that was cut short: inspect log recover",
        ) from error


def _member(archive: zipfile.ZipFile, name: str) -> JSON:
    try:
        with archive.open(name) as file:
            text = file.read(PACKED_LIMIT_BYTES + 1)
    except NotImplementedError:  # zstd in zip is read by Python 3.14 and later
        return BadLine("packed in a way unknown here (try: inspect log convert --to json)")
    except (*_ZIP_DAMAGE, RuntimeError):  # RuntimeError: it has a password
        return BadLine("damaged inside the archive")
    if len(text) > PACKED_LIMIT_BYTES:
        return BadLine(f"a sample above {PACKED_LIMIT_BYTES >> 20} MiB")
    return parsed(text)
