"""`RolloutStore`: rollouts on disk as zstd JSON lines, with a manifest of hashes.

A shard is a named set of rollouts in up to three files: rows, token rows, and the manifest
`NAME.shard.json`, written last. Data files have their content's hash in their name. So a crash
between two steps leaves either the old shard or the new one, never a mixture. Writing the same name
again replaces the shard.

Promises: each file is written aside, synced and renamed, and its directory synced, before the
manifest names it. A reader checks the hash before it yields the first row, and `IntegrityError`
names the file that differs. Memory does not grow with the number of rows. Does not cover: two
writers of one name at the same time (the ledger's steps allow one), and deleting old runs.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final, cast

import zstandard

from meta_agent.core.durable import AtomicFile, sync, write_whole
from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import JSON, Rollout, TokenRecord
from meta_agent.core.rollouts.record import (
    SCHEMA_VERSION,
    from_json,
    to_line,
    tokens_from_json,
    tokens_to_json,
)

_LEVEL: Final = 3
_READ_BYTES: Final = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*(/[A-Za-z0-9][A-Za-z0-9._@+-]*)*")


@dataclass(frozen=True, slots=True)
class DataFile:
    """One compressed file of a shard (a stored set of rollouts). `path` is relative to the store.

    `count` is the number of lines, and `bytes` the size on disk.
    """

    path: str
    sha256: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ShardRef:
    """A stored set of rollouts (a shard): its name, and path, hash and size of its file.

    `tokens` describes a second file, of the rollouts' tokens, or is None.
    """

    name: str
    path: str
    sha256: str
    count: int
    bytes: int
    tokens: DataFile | None = None

    @property
    def rows(self) -> DataFile:
        """Returns the file of the shard that holds the rollouts."""
        return DataFile(self.path, self.sha256, self.count, self.bytes)


class RolloutStore:
    """Named sets of rollouts (shards) in one directory, as compressed JSON lines with hashes."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)

    def write(self, name: str, rollouts: Iterable[Rollout]) -> ShardRef:
        """Stores rollouts as a set under a name such as `run/g1/c0-search`, synced to disk.

        It takes the place of a stored set of that name. Raises ValueError if the name is not valid.
        """
        target = self._target(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        rows, tokens = _ShardFile(target, "rollouts"), _ShardFile(target, "tokens")
        with rows, tokens:
            for index, rollout in enumerate(rollouts):
                rows.add(to_line(rollout))
                if rollout.tokens is not None:
                    row = {"row": index, **tokens_to_json(rollout.tokens)}
                    line = json.dumps(row, separators=(",", ":"), allow_nan=False)
                    tokens.add(line.encode() + b"\n")
            file = rows.keep(self.directory)
            tokens_file = tokens.keep(self.directory) if tokens.count else None
        ref = ShardRef(name, file.path, file.sha256, file.count, file.bytes, tokens_file)
        return self._publish(ref)

    def adopt(self, other: RolloutStore, name: str, sha256: str) -> ShardRef:
        """Moves the set of rollouts `name` into this store from `other`, on the same disk.

        Raises IntegrityError if `other` lacks the set, or its hash is not `sha256`. A repeated call
        finishes a move that was cut short.
        """
        ref = other.find(name)
        if ref is None or ref.sha256 != sha256:
            raise IntegrityError(
                f"{other.directory} stores {ref.sha256[:12] if ref else 'nothing'} as {name}, "
                f"but the process that wrote it reported {sha256[:12]}; run the same command "
                "again"
            )
        self._target(name).parent.mkdir(parents=True, exist_ok=True)
        for file in filter(None, (ref.rows, ref.tokens)):
            source, place = other.directory / file.path, self.directory / file.path
            _verify(source if source.exists() else place, file)
            if source.exists():
                source.rename(place)
        return self._publish(ref)

    def _publish(self, ref: ShardRef) -> ShardRef:
        before = self.find(ref.name)
        text = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(ref)}, indent=1)
        sync(self._manifest_path(ref.name).parent)
        write_whole(self._manifest_path(ref.name), text + "\n", mode=0o600)
        paths = {file.path for file in (ref.rows, ref.tokens) if file}
        for file in (before.rows, before.tokens) if before else ():
            if file and file.path not in paths:
                (self.directory / file.path).unlink(missing_ok=True)
        return ref

    def find(self, name: str) -> ShardRef | None:
        """Returns the stored set `name`, or None. Raises IntegrityError for a damaged manifest."""
        path = self._manifest_path(name)
        try:
            record = _parse(path.read_bytes(), str(path))
        except FileNotFoundError:
            return None
        return _ref_from_json(record, path)

    def names(self) -> list[str]:
        """Returns the names of all stored sets of rollouts, sorted."""
        manifests = self.directory.rglob("*.shard.json")
        return sorted(
            path.relative_to(self.directory).as_posix().removesuffix(".shard.json")
            for path in manifests
        )

    def read(self, shard: ShardRef | str, *, tokens: bool = False) -> list[Rollout]:
        """Returns the rollouts of a stored set (shard), with their tokens if `tokens` is True.

        Raises IntegrityError if the set is not stored, or if a file is missing or was changed.
        """
        return list(self.iter(shard, tokens=tokens))

    def iter(self, shard: ShardRef | str, *, tokens: bool = False) -> Iterator[Rollout]:
        """Yields the rollouts of a stored set (shard), with their tokens if `tokens` is True.

        Raises IntegrityError if the set is not stored, or if a file is missing or was changed.
        """
        ref = self._resolve(shard)
        token_rows = self._token_rows(ref) if tokens else iter(())
        following = next(token_rows, None)
        for index, line in enumerate(self.iter_lines(ref)):
            rollout = from_json(_parse(line, ref.path))
            if following is not None and following[0] == index:
                rollout.tokens = following[1]
                following = next(token_rows, None)
            yield rollout

    def iter_lines(self, shard: ShardRef | str) -> Iterator[bytes]:
        """Yields a stored set's rollouts as JSON lines. Raises IntegrityError if it was changed."""
        return self._lines(self._resolve(shard).rows)

    def _token_rows(self, ref: ShardRef) -> Iterator[tuple[int, TokenRecord]]:
        if ref.tokens is None:
            return
        for line in self._lines(ref.tokens):
            record = _parse(line, ref.tokens.path)
            yield record["row"], tokens_from_json(record)

    def _lines(self, file: DataFile) -> Iterator[bytes]:
        path = self.directory / file.path
        _verify(path, file)
        count = 0
        with path.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as reader:
            for line in io.BufferedReader(reader, _READ_BYTES):
                count += 1
                yield line
        if count != file.count:
            raise IntegrityError(
                f"{path} holds {count} rows, not {file.count} as its manifest says; restore it "
                "from a copy"
            )

    def _resolve(self, shard: ShardRef | str) -> ShardRef:
        if isinstance(shard, ShardRef):
            return shard
        ref = self.find(shard)
        if ref is None:
            raise IntegrityError(
                f"{self._manifest_path(shard)} is missing, so there are no rollouts {shard!r}; "
                "restore it from a copy"
            )
        return ref

    def _target(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"a set of rollouts cannot be named {name!r}; use letters, digits and ._@+- "
                "between slashes"
            )
        return self.directory / name

    def _manifest_path(self, name: str) -> Path:
        target = self._target(name)
        return target.with_name(target.name + ".shard.json")


class _ShardFile:
    """A compressed file that is being written. It is deleted unless `keep` is called."""

    def __init__(self, target: Path, kind: str) -> None:
        self._target, self._kind = target, kind
        self._file = AtomicFile(target.parent, target.name)
        self._writer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(
            cast("IO[bytes]", self._file), closefd=False
        )
        self.count = 0

    def __enter__(self) -> _ShardFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.discard()

    def add(self, line: bytes) -> None:
        self._writer.write(line)
        self.count += 1

    def keep(self, root: Path) -> DataFile:
        self._writer.flush(zstandard.FLUSH_FRAME)
        digest = self._file.sha256
        name = f"{self._target.name}.{digest[:12]}.{self._kind}.jsonl.zst"
        size = self._file.size
        path = self._file.publish(name)
        return DataFile(path.relative_to(root).as_posix(), digest, self.count, size)


def _verify(path: Path, file: DataFile) -> None:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as raw:
            while chunk := raw.read(_READ_BYTES):
                digest.update(chunk)
    except FileNotFoundError:
        raise IntegrityError(
            f"{path} is missing, but its manifest lists it; restore it from a copy"
        ) from None
    if digest.hexdigest() != file.sha256:
        actual = digest.hexdigest()
        raise IntegrityError(
            f"{path} has sha256 {actual}, not {file.sha256} as its manifest says; restore it from "
            "a copy"
        )


def _parse(text: bytes, path: str) -> JSON:
    try:
        return json.loads(text)
    except ValueError as error:
        raise IntegrityError(
            f"{path} holds a line that is not JSON: {error}; restore it from a copy"
        ) from error


def _ref_from_json(record: JSON, path: Path) -> ShardRef:
    try:
        if record.pop("schema_version") != SCHEMA_VERSION:
            raise IntegrityError(
                f"{path} does not have the schema_version {SCHEMA_VERSION} that is read here; "
                "open it with the version of meta-agent that wrote it"
            )
        tokens = record.pop("tokens")
        return ShardRef(**record, tokens=None if tokens is None else DataFile(**tokens))
    except (AttributeError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{path} is not a manifest of stored rollouts: {error!r}; restore it from a copy"
        ) from error
