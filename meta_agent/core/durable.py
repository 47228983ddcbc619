"""Writes files that exist whole or not at all, even after a power cut.

A file is written beside its target, synced, and renamed. The directory is synced so that the new
name survives too. Does not cover: a disk that reports a sync that did not happen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from pathlib import Path

from meta_agent.core.errors import ConfigError


def sync(path: Path) -> None:
    """Flushes a file's content to disk, or the list of names if `path` is a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class AtomicFile:
    """A binary file that is hashed while it is written and gets its name by `publish`."""

    def __init__(self, directory: Path, label: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix=f".{label}.", suffix=".part", dir=directory)
        self._handle = os.fdopen(descriptor, "wb")
        self._temporary: Path | None = Path(name)
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Appends data and returns how many bytes were written."""
        self._digest.update(data)
        self.size += len(data)
        return self._handle.write(data)

    @property
    def sha256(self) -> str:
        """Returns the SHA-256 of the data written so far, as hexadecimal digits."""
        return self._digest.hexdigest()

    def publish(self, name: str) -> Path:
        """Flushes the file to disk and renames it to `name`, in place of any such file."""
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
        """Deletes the temporary file. Does nothing once it was renamed to its final name."""
        self._handle.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Writes a text file whole or not at all, even at a crash, with the permission bits `mode`."""
    part = part_of(path)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync(path.parent)


def part_of(path: Path) -> Path:
    """Returns the temporary path at which the file `path` is written before it gets its name."""
    return path.with_name(f".{path.name}.part")


def hash_of(path: Path | None, whose: str) -> str | None:
    """Returns the SHA-256 of a file, or of all files in a folder; None if `path` is None.

    Raises ConfigError if the file cannot be read. `whose` is how the message calls the file.
    """
    if path is None:
        return None
    try:
        if not path.is_dir():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        contents = [(str(file.relative_to(path)), file.read_bytes()) for file in files]
        hashes = [(name, hashlib.sha256(data).hexdigest()) for name, data in contents]
        return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"cannot read the {whose} file {path}: {error.strerror}",
            hint=f"check the path and its permissions: ls -ld {path}",
        ) from error


def remove_folder(folder: Path) -> None:
    """Removes a folder, however deeply nested, except files that cannot be removed."""
    while _flatten(folder):
        pass
    shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: Path) -> bool:
    """Removes the inner folders, after moving up what is inside them by one level.

    So no path gets long and no stack deep. Returns whether a folder was moved.
    """
    moved = False
    for inner in _folders_in(folder):
        for deeper in _folders_in(inner):
            with contextlib.suppress(OSError):
                deeper.rename(folder / uuid.uuid4().hex)
                moved = True
        shutil.rmtree(inner, ignore_errors=True)
    return moved


def _folders_in(folder: Path) -> list[Path]:
    """Returns the folders in a folder, without links, after making all of them accessible."""
    with contextlib.suppress(OSError):
        folders = [Path(e.path) for e in os.scandir(folder) if e.is_dir(follow_symlinks=False)]
        for path in folders:
            path.chmod(0o700)
        return folders
    return []
