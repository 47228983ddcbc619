"""Walks a tree that a sandbox made, level by level and counted.

Promises: time and memory are bounded by the limits even for a tree bomb (ten nested trees of ten
entries each name 10^10 files with ten objects), which `git ls-tree -r` would print in full; and so
are the bytes of all files together, where one blob stands under many names.

Does not cover: judging modes and names; `_policy` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from meta_agent.history._git import Git
from meta_agent.history._limits import AdmissionLimits, refuse
from meta_agent.history._policy import Entry

_FOLDER, _SUBMODULE = "40000", "160000"
_MAX_DEPTH = 24


class _Row(NamedTuple):
    mode: str
    path: str
    oid: str


def tree_entries(git: Git, commit: str, limits: AdmissionLimits) -> Mapping[str, Entry]:
    """Every file below a commit, by path."""
    level = [_Row(_FOLDER, "", git.line("rev-parse", "--verify", f"{commit}^{{tree}}"))]
    files: dict[str, Entry] = {}
    for _ in range(_MAX_DEPTH):
        if not level:
            _check_bytes(git, files, limits)
            return files
        level = _next_level(git, level, files, limits)
    refuse("path_name", f"folders are nested over {_MAX_DEPTH} deep")


def _next_level(
    git: Git, level: list[_Row], files: dict[str, Entry], limits: AdmissionLimits
) -> list[_Row]:
    raw, folders = _trees(git, {row.oid for row in level}), list[_Row]()
    for parent in level:
        for row in _rows(raw[parent.oid], parent.path):
            if row.mode == _FOLDER:
                folders.append(row)
            elif row.path in files:
                refuse("path_collision", f"{row.path!r} is in its tree twice")
            else:
                files[row.path] = Entry(row.mode, row.oid)
        if len(files) + len(folders) > limits.files:
            refuse("too_many_files", f"the tree has over {limits.files} files")
    return folders


def _check_bytes(git: Git, files: Mapping[str, Entry], limits: AdmissionLimits) -> None:
    """By name, as a checkout, a tar and a model see them; git itself keeps a blob once."""
    names = Counter(entry.oid for entry in files.values() if entry.mode != _SUBMODULE)
    asked = "\n".join(names).encode() + b"\n"
    rows = git.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=asked).stdout
    total = 0
    for (oid, times), row in zip(names.items(), rows.splitlines(), strict=False):
        kind, _, size = row.partition(b" ")
        if kind != b"blob":
            refuse("missing_object", f"{oid[:12]} is not a file")
        total += times * int(size)
    if total > limits.total_bytes:
        refuse("tree_too_large", f"all files have {total} bytes, over {limits.total_bytes}")


def _trees(git: Git, oids: Iterable[str]) -> dict[str, bytes]:
    wanted = sorted(oids)
    stream = git.run("cat-file", "--batch", stdin="\n".join(wanted).encode() + b"\n").stdout
    found, at = dict[str, bytes](), 0
    for oid in wanted:
        end = stream.index(b"\n", at)
        header = stream[at:end].split()
        if len(header) != 3 or header[1] != b"tree":
            refuse("missing_object", f"{oid[:12]} is not a tree")
        start, size = end + 1, int(header[2])
        found[oid], at = stream[start : start + size], start + size + 1
    return found


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
