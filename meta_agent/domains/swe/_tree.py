"""Source trees as plain values: path -> bytes of its regular files.

Promises: an archive is read only if its hash is the recorded one; links, devices and names that
leave the tree are not followed but refused; sizes are bounded; no history comes along, whatever
its folder is called (but for repositories that a test suite brings as its data).

Does not cover: file modes (a tree is data for an interpreter), and compiled extensions of an image.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.tar import DAMAGE, members, open_tar
from meta_agent.core.protocols import Sandbox
from meta_agent.domains.formats import SourceSpec
from meta_agent.domains.swe._patch import PatchError, apply, is_inside, overlay, parse

Tree = dict[str, bytes]

_MAX_FILE_BYTES = 8 << 20
_MAX_TREE_BYTES = 128 << 20
_MAX_MEMBERS = 100_000
_READ_BATCH_BYTES = 4 << 20
IGNORED_DIRECTORIES = frozenset(
    {".git", "__pycache__", ".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache"}
    | {".hg", ".svn", ".bzr", ".jj"}
)
_STORES = frozenset({".git", ".hg", ".svn", ".bzr", ".jj"})
SUITES = frozenset({"tests", "test", "testing"})
_PACKS = (b"PACK", b"# v2 git bundle", b"# v3 git bundle")

# Lists path, size, hash and kind of what lies below a directory. The isolated interpreter of a
# read-only image runs it, so nothing an agent wrote takes part.
LISTING = """
import hashlib, json, os, stat, sys
skip, root, out = set(json.loads(sys.argv[1])), sys.argv[2], []
for top, dirs, names in os.walk(root):
    links = [d for d in dirs if os.path.islink(os.path.join(top, d))]
    dirs[:] = sorted(d for d in dirs if d not in skip and d not in links)
    for name in sorted(names + links):
        path = os.path.join(top, name)
        info = os.lstat(path)
        plain = stat.S_ISREG(info.st_mode)
        digest = ''
        if plain and info.st_size < 1 << 24:
            digest = hashlib.sha256(open(path, 'rb').read()).hexdigest()
        shown = os.path.relpath(path, root).encode('utf-8', 'replace').decode()
        out.append([shown, info.st_size, digest, plain])
print(json.dumps(out))
"""


_COPY = """
from="$1"; shift
mkdir image_tree && tar -C "$from" -chf - "$@" . | tar -C image_tree -xf - && cd "$from"
"""


class Listed(NamedTuple):
    """A file or link. `plain`: it is a regular file. `digest`: its SHA-256; "" from 16 MiB on."""

    path: str
    size: int
    digest: str
    plain: bool


class ListingError(RuntimeError):
    """Raised if the files below a folder of a sandbox cannot be listed, or are too many."""


def read_archive(path: Path, sha256: str) -> Tree:
    """Returns a tar archive's files by path below its top folder, without git history.

    Raises ConfigError if the archive is missing, damaged or has another hash than `sha256`.
    """
    if path.exists() and not path.is_file():  # a device has no end, a FIFO may have no beginning
        raise ConfigError(f"the source archive {path} is no regular file; give a tar file")
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise ConfigError(
            f"cannot read the source archive {path}: {problem.strerror}",
            hint="restore the archive, or make the tasks again (see meta-agent tasks --help)",
        ) from problem
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise ConfigError(
            f"restore {path}: its sha256 is {digest}, but the task file says {sha256}"
        )
    try:
        return without_history(_members(path, content))
    except DAMAGE as problem:
        raise ConfigError(f"{path} is not a tar archive; make it again: {problem}") from problem


def without_history(tree: Tree) -> Tree:
    """Returns the files of `tree` without version history (`.git`, ...), which may hold a fix."""
    roots = {str(PurePosixPath(path).parent) for path in tree if _heads_a_store(path, tree)}
    return {path: content for path, content in tree.items() if not _past(path, content, roots)}


def _heads_a_store(path: str, tree: Tree) -> bool:
    """Returns whether a file is the head of a git directory, or of a linked worktree."""
    parent, name = PurePosixPath(path).parent, PurePosixPath(path).name
    if name == ".git":
        return tree[path].startswith(b"gitdir:") and b"/worktrees/" in tree[path]
    beside = (f"{parent}/config", f"{parent}/packed-refs", f"{parent}/info/refs")
    in_suite = bool(SUITES.intersection(parent.parts))
    return name == "HEAD" and not in_suite and any(entry in tree for entry in beside)


def _past(path: str, content: bytes, roots: set[str]) -> bool:
    parts = PurePosixPath(path).parts
    if _STORES.intersection(part.lower() for part in parts):
        return True
    if path.endswith((".pack", ".bundle")) and content.startswith(_PACKS):
        return not SUITES.intersection(parts)
    return any(path.startswith(f"{root}/") for root in roots if root != ".")


def _members(path: Path, content: bytes) -> Tree:
    tree: Tree = {}
    budget_bytes = _MAX_TREE_BYTES
    unpacked = 2 * _MAX_TREE_BYTES  # what is not files is headers
    with open_tar(io.BytesIO(content), at_once=_MAX_FILE_BYTES, unpacked=unpacked) as archive:
        for number, member in enumerate(members(archive)):
            budget_bytes -= member.size
            if number >= _MAX_MEMBERS:
                raise ConfigError(f"more than {_MAX_MEMBERS} files are in {path}; leave some out")
            if member.isdir() or member.name == "pax_global_header":
                continue
            _check_member(path, member, budget_bytes)
            file = archive.extractfile(member)
            tree[_below_top(member.name)] = file.read() if file else b""
    return tree


def _check_member(path: Path, member: tarfile.TarInfo, budget_bytes: int) -> None:
    if not member.isreg():
        raise ConfigError(f"{path} holds {member.name}, no regular file; leave it out")
    if not is_inside(_below_top(member.name)):
        raise ConfigError(f"{path} holds {member.name!r}, outside its top folder; leave it out")
    if member.size > _MAX_FILE_BYTES or budget_bytes < 0:
        raise ConfigError(
            f"{path} is too large at {member.name}: a file may have {_MAX_FILE_BYTES} bytes, "
            f"and all files {_MAX_TREE_BYTES}; leave data out"
        )


def _below_top(name: str) -> str:
    return str(PurePosixPath(*PurePosixPath(name).parts[1:]))


def prepared(tree: Tree, source: SourceSpec, name: str) -> Tree:
    """Returns `tree` with `source.setup_patch` applied. Raises ConfigError if it does not fit."""
    if not source.setup_patch:
        return tree
    try:
        return overlay(tree, apply(tree, parse(source.setup_patch)))
    except PatchError as problem:
        raise ConfigError(
            f"the setup_patch of {name} does not fit its source: {problem}",
            hint="correct the row, or leave it out",
        ) from problem


def list_files(sandbox: Sandbox, directory: str, python: str) -> list[Listed]:
    """Lists a sandbox's files, without `.git` and caches. Raises ListingError if that fails."""
    skip = json.dumps(sorted(IGNORED_DIRECTORIES))
    result = sandbox.exec(
        [python, "-I", "-c", LISTING, skip, directory], timeout_sec=60, output_limit_bytes=8 << 20
    )
    if result.exit_code != 0 or result.truncated:
        tail = result.stderr[-200:]
        raise ListingError(f"cannot list {directory}: exit {result.exit_code}, {tail!r}")
    return [
        Listed(str(p), int(size), str(digest), bool(plain))
        for p, size, digest, plain in json.loads(result.stdout)
    ]


def read_from_image(
    sandbox: Sandbox, directory: str, python: str, excluded: Collection[str] = ()
) -> Tree:
    """Returns the files of an image's folder, as content by path, read through a fresh sandbox.

    Leaves out history, `excluded` paths, links and files over 8 MiB. Raises ConfigError if the
    folder cannot be read.
    """
    left_out = [f"--exclude=./{path}" for path in sorted({".git", *excluded})]
    copied = sandbox.exec(["sh", "-c", _COPY, "sh", directory, *left_out], timeout_sec=120)
    if copied.exit_code != 0:
        raise ConfigError(
            f"the directory {directory} of the image cannot be read: {copied.stderr[-200:]!r}",
            hint="correct source.image_path in the row",
        )
    files = list_files(sandbox, "image_tree", python)
    tree: Tree = {}
    batch: list[str] = []
    room = _READ_BATCH_BYTES
    for file in files:
        if not file.plain or file.size > _MAX_FILE_BYTES or not is_inside(file.path):
            continue
        batch.append(f"image_tree/{file.path}")
        room -= file.size
        if room < 0:
            tree.update(_read(sandbox, batch))
            batch, room = [], _READ_BATCH_BYTES
    tree.update(_read(sandbox, batch))
    return without_history(tree)


def _read(sandbox: Sandbox, paths: list[str]) -> Tree:
    return {path.split("/", 1)[1]: content for path, content in sandbox.read(paths).items()}
