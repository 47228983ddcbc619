"""Walks a tree that a sandbox made, level by level and within limits.

Promises: time and memory are bounded by the limits even for a tree bomb (ten nested trees of ten
entries each name 10^10 files with ten objects), which `git ls-tree -r` would print in full. The
bytes of all files together are bounded too, even if one blob has many names.
Does not cover: judging modes and names; `_policy` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from meta_agent.core.history._git import read_object
from meta_agent.core.history._limits import AdmissionLimits, refuse
from meta_agent.core.history._policy import Entry

_FOLDER, _SUBMODULE = "40000", "160000"
_MAX_DEPTH = 24


class _Row(NamedTuple):
    mode: str
    path: str
    oid: str


def tree_entries(objects: Any, tree: str, limits: AdmissionLimits) -> Mapping[str, Entry]:
    """Returns mode and id of each file in a git tree, by path.

    Raises CandidateError if the tree is malformed or exceeds `limits`.
    """
    level = [_Row(_FOLDER, "", tree)]
    files: dict[str, Entry] = {}
    for _ in range(_MAX_DEPTH):
        if not level:
            _check_bytes(objects, files, limits)
            return files
        level = _next_level(objects, level, files, limits)
    refuse("path_name", f"folders are nested over {_MAX_DEPTH} levels deep")


def _next_level(
    objects: Any, level: list[_Row], files: dict[str, Entry], limits: AdmissionLimits
) -> list[_Row]:
    raw = {oid: _tree(objects, oid) for oid in {row.oid for row in level}}
    folders = list[_Row]()
    for parent in level:
        for row in _rows(raw[parent.oid], parent.path):
            if row.mode == _FOLDER:
                folders.append(row)
            elif row.path in files:
                refuse("path_collision", f"the candidate's tree lists {row.path!r} twice")
            else:
                files[row.path] = Entry(row.mode, row.oid)
        if len(files) + len(folders) > limits.files:
            refuse("too_many_files", f"the candidate has more than {limits.files} files")
    return folders


def _check_bytes(objects: Any, files: Mapping[str, Entry], limits: AdmissionLimits) -> None:
    """Raises CandidateError if all files are too large together; each name of a blob counts."""
    names = Counter(entry.oid for entry in files.values() if entry.mode != _SUBMODULE)
    total = sum(times * _blob_size(objects, oid) for oid, times in names.items())
    if total > limits.total_bytes:
        refuse("tree_too_large", f"the files have {total} bytes; the limit is {limits.total_bytes}")


def _blob_size(objects: Any, oid: str) -> int:
    try:
        _, kind, size = objects.git.get_object_header(oid)
    except ValueError:
        kind = b""
    if kind != b"blob":
        refuse("missing_object", f"the git object {oid[:12]} is not a file")
    return int(size)


def _tree(objects: Any, oid: str) -> bytes:
    raw = read_object(objects, oid, b"tree")
    if raw is None:
        refuse("missing_object", f"the git object {oid[:12]} is not a folder")
    return raw


def _rows(raw: bytes, folder: str) -> Iterator[_Row]:
    at = 0
    while at < len(raw):
        space = raw.index(b" ", at)
        end = raw.index(b"\0", space)
        name = _name(raw[space + 1 : end])
        path = f"{folder}/{name}" if folder else name
        yield _Row(raw[at:space].decode("ascii"), path, raw[end + 1 : end + 21].hex())
        at = end + 21


def _name(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        refuse("path_name", f"the file name {raw!r} is not UTF-8")
