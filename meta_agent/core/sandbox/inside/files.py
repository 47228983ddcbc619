"""Reads and writes plain files in the sandbox's work directory, never through a link."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from meta_agent.core.sandbox.inside.frames import Json
from meta_agent.core.sandbox.inside.processes import Here


@contextlib.contextmanager
def parent_directory(path: str, create: bool) -> Iterator[tuple[int, str]]:
    """Opens a path's directory step by step, never through a link.

    Yields the directory's descriptor and the file name. Raises ValueError if the path leaves the
    work directory.
    """
    *folders, name = [part for part in path.split("/") if part not in ("", ".")] or [""]
    if path.startswith("/") or ".." in (*folders, name) or not name:
        raise ValueError(f"{path!r} is not in the work directory; use a relative path without '..'")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(Here.work_dir, flags)
    try:
        for folder in folders:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            inner = os.open(folder, flags, dir_fd=here)
            os.close(here)
            here = inner
        yield here, name
    finally:
        os.close(here)


def write_files(args: dict[str, Json]) -> None:
    """Writes the `files` of a request. What stood at a path is deleted, so no link is followed."""
    mode = 0o755 if args["executable"] else 0o644
    for path, content in args["files"].items():
        with parent_directory(path, create=True) as (folder, name):
            # A fresh file each time: whatever stood there (link, FIFO) is not written through.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
                file.write(base64.b64decode(content))


def read_files(args: dict[str, Json]) -> dict[str, str]:
    """Returns the content of the regular files among the paths, as base64 by path.

    Raises ValueError if all files together exceed `limit_bytes`.
    """
    room, content_by_path = args["limit_bytes"], {}
    for path in args["paths"]:
        content = read_regular(path, room)
        if content is not None:
            room -= len(content)
            content_by_path[path] = base64.b64encode(content).decode()
    return content_by_path


def read_regular(path: str, limit: int) -> bytes | None:
    """Returns a regular file's content; None for anything else, and for a path through a link.

    Raises ValueError if the file is longer than `limit` bytes.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        with parent_directory(path, create=False) as (folder, name):
            descriptor = os.open(name, flags, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(
            f"{path} exceeds the {limit} bytes left of limit_bytes; read fewer files or raise it"
        )
    return content
