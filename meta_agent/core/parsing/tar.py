"""Tar archives of strangers, member by member, in little memory.

Promises: no header makes us hold more than it may (an extended header says its own size, and gzip
makes gigabytes of zeros small), what the archive unpacks to is bounded, and members that were read
are forgotten. Damage is `tarfile.TarError`, OSError, EOFError or zlib.error: `DAMAGE`.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

DAMAGE: Final = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)
AT_ONCE_BYTES: Final = 1 << 20
UNPACKED_BYTES: Final = 64 << 30


class _InPieces(io.RawIOBase):
    """A tar's bytes, of which nobody gets many at once: a header may ask for gigabytes."""

    def __init__(self, source: IO[bytes] | gzip.GzipFile, at_once: int, unpacked: int) -> None:
        self._source, self._at_once, self._unpacked = source, at_once, unpacked

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self._at_once:
            raise tarfile.ReadError(
                f"a tar header has {size} bytes, over {self._at_once}; remake the tar"
            )
        return self._source.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > self._unpacked:
            raise tarfile.ReadError(f"the archive unpacks to over {self._unpacked} bytes; split it")
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()


@contextmanager
def open_tar(
    raw: IO[bytes], *, at_once: int = AT_ONCE_BYTES, unpacked: int = UNPACKED_BYTES
) -> Iterator[tarfile.TarFile]:
    """Opens a tar archive, plain or gzipped, for the `with` block.

    Reading raises `tarfile.ReadError` if a header, or a file read whole, has over `at_once` bytes,
    or if the archive unpacks to over `unpacked` bytes.
    """
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    source = gzip.GzipFile(fileobj=raw) if packed else raw
    with tarfile.open(fileobj=_InPieces(source, at_once, unpacked), mode="r:") as tar:
        yield tar


def members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yields every member of a tar archive in order, and keeps none of them in memory."""
    while (member := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined]
        yield member
