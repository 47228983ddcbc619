"""Reads a user's own repository with its past: commits, what they changed, trees as plain files.

Promises: the original is only read, by one fetch over `file://` into a throw-away repository (no
checkout, so no filter, hook or submodule of theirs runs). The results are plain values, so nothing
made from them can hold history or refs. Links, submodules and very large files are left out.
Does not cover: renames (a rename is a deletion and a new file). The oldest commits of a shallow
clone have no parents to compare with, so they are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.history._foreign import _walk
from meta_agent.core.history._git import Git, GitError, scratch

MAX_BLOB_BYTES: Final = 8 << 20
MAX_TREE_BYTES: Final = 128 << 20
_IMPORT = "refs/import"
# Old tools wrote these; nothing here reads dates, names of authors, or modes by their spelling.
_FORGIVEN: Final = (
    *("zeroPaddedFilemode", "badTimezone", "badEmail", "missingEmail", "missingNameBeforeEmail"),
    *("missingSpaceBeforeDate", "missingSpaceBeforeEmail", "gitmodulesParse"),
)


class PastCommit(NamedTuple):
    """A commit with exactly one parent, its message, and the paths that it changed."""

    id: str
    parent: str
    message: str
    changed: tuple[str, ...]

    @property
    def subject(self) -> str:
        return self.message.strip().split("\n", 1)[0]


class ForeignHistory:
    """A temporary copy of the git history of a user's repository (`foreign_history`)."""

    def __init__(self, git: Git, source: Path) -> None:
        self._git = git
        self._source = source
        self._blobs: dict[str, bytes] = {}

    def head(self) -> str:
        """Returns the id of the commit that was the user's `HEAD`."""
        return self._git.line("rev-parse", "--verify", f"{_IMPORT}^{{commit}}")

    def commits(self) -> list[PastCommit]:
        """Returns every commit that has exactly one parent, newest first."""
        listed = self._git.run(
            *("log", "-z", "--no-merges", "--topo-order", "--no-renames", "--name-only"),
            *("--format=%x01%H%x02%P%x02%B%x03", _IMPORT),
        ).stdout
        commits = [
            _commit(text) for text in listed.decode("utf-8", "replace").split("\x01") if text
        ]
        return [commit for commit in commits if commit.parent and " " not in commit.parent]

    def tree(self, commit: str) -> dict[str, bytes]:
        """Returns the content of a commit's regular files of up to 8 MiB, by path.

        Raises ConfigError if the files have over 128 MiB together.
        """
        rows = self._git.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit).stdout
        blob_ids: dict[str, str] = {}
        room = MAX_TREE_BYTES
        for row in filter(None, rows.split(b"\0")):
            head, _, name = row.partition(b"\t")
            mode, _, oid, size = head.decode("ascii").split()
            if mode not in ("100644", "100755") or int(size) > MAX_BLOB_BYTES:
                continue
            room -= int(size)
            blob_ids[name.decode("utf-8", "replace")] = oid
        if room < 0:
            raise ConfigError(
                f"the files of commit {commit[:12]} of {self._source} have over {MAX_TREE_BYTES} "
                "bytes; use a smaller repository"
            )
        self._fetch_blobs(set(blob_ids.values()) - self._blobs.keys())
        return {path: self._blobs[oid] for path, oid in blob_ids.items()}

    def _fetch_blobs(self, oids: set[str]) -> None:
        """Reads the contents of these files with one process, whatever their number."""
        order = "".join(f"{oid}\n" for oid in sorted(oids)).encode()
        out = self._git.run("cat-file", "--batch", stdin=order).stdout if oids else b""
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            oid, _, size = out[at:end].decode("ascii").split()
            self._blobs[oid] = out[end + 1 : end + 1 + int(size)]
            at = end + 1 + int(size) + 1


@contextmanager
def foreign_history(source: Path, *, deep: bool = False) -> Iterator[ForeignHistory]:
    """Yields a temporary copy of a user's repository: its last commit, or with `deep` all commits.

    The copy is removed after the `with` block. Raises ConfigError if `source` cannot be read.
    """
    place = source.resolve()
    with scratch(None, transport="file") as git:
        try:
            git.run(
                *("-c", "fetch.fsckObjects=true", *_forgiven(), "fetch", "-q", "--no-tags"),
                *(() if deep else ("--depth=1",)),
                *("--no-recurse-submodules", "--no-write-fetch-head", "--update-shallow"),
                *(f"file://{place}", f"HEAD:{_IMPORT}"),
            )
        except GitError as error:
            words = error.stderr.strip().partition("\n")[0]  # the rest is git's advice
            raise ConfigError(
                f"cannot read {source}: {words[-300:]}",
                hint=error.hint_or("is it a git repository with a commit, and is it yours?"),
            ) from error
        yield ForeignHistory(git, source)


def _forgiven() -> list[str]:
    return [part for name in _FORGIVEN for part in ("-c", f"fetch.fsck.{name}=ignore")]


def read_folder(root: Path) -> dict[str, bytes]:
    """Returns the content of a folder's files of up to 8 MiB, by path, without caches and builds.

    Raises ConfigError if the files have over 128 MiB together.
    """
    tree: dict[str, bytes] = {}
    for path in _walk(root):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BLOB_BYTES:
            continue
        tree[path.relative_to(root).as_posix()] = path.read_bytes()
        if sum(map(len, tree.values())) > MAX_TREE_BYTES:
            raise ConfigError(
                f"the files of {root} have over {MAX_TREE_BYTES} bytes; name a smaller folder"
            )
    return tree


def _commit(text: str) -> PastCommit:
    head, _, paths = text.partition("\x03")
    oid, parents, message = head.split("\x02", 2)
    changed = tuple(sorted(path for path in paths.replace("\n", "").split("\0") if path))
    return PastCommit(oid, parents, message, changed)
