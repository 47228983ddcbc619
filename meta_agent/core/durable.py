"""Files that are there whole or not at all, also after a power cut on an honest disk.

A file is written beside its target, synced, and renamed; the directory is synced so that the new
name survives too. Does not cover: a disk that lies about a sync.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def sync(path: Path) -> None:
    """Makes what a file holds durable; of a directory, the names in it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class AtomicFile:
    """A binary sink that hashes as it writes and appears under its name only when published."""

    def __init__(self, directory: Path, label: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix=f".{label}.", suffix=".part", dir=directory)
        self._handle = os.fdopen(descriptor, "wb")
        self._temporary: Path | None = Path(name)
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Appends; the signature that stream writers expect."""
        self._digest.update(data)
        self.size += len(data)
        return self._handle.write(data)

    @property
    def sha256(self) -> str:
        """The hash of what was written so far."""
        return self._digest.hexdigest()

    def publish(self, name: str) -> Path:
        """Syncs the content and gives it its name, replacing what stood there."""
        assert self._temporary is not None, "published or discarded before"
        target = self._temporary.with_name(name)
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self._handle.close()
        self._temporary.replace(target)
        self._temporary = None
        sync(target.parent)
        return target

    def discard(self) -> None:
        """Removes what was not published. Safe after `publish`."""
        self._handle.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Writes a small file durably; what a crash left half written is overwritten."""
    part = part_of(path)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync(path.parent)


def part_of(path: Path) -> Path:
    """Where `write_whole` writes before the file has its name."""
    return path.with_name(f".{path.name}.part")
