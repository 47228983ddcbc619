"""Keeps the checked-out files of `main` in step with the branch, without running a filter.

Promises: a file that the user changed is never overwritten. A checkout that was killed halfway is
recognised (every file equals its old or its new version) and finished. Nothing here asks git to
compare files, since that could run a clean filter.
Does not cover: untracked files, which stay, and a work tree on another branch, which is left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.core.history._git import Git, GitError

MAIN = "refs/heads/main"


def on_main(git: Git) -> bool:
    """Returns True if the repository has its branch `main` checked out."""
    return (git.git_dir / "HEAD").read_text(encoding="utf-8").strip() == f"ref: {MAIN}"


def check_clean(git: Git, work_tree: Path, target_commit: str = MAIN) -> None:
    """Raises ConfigError if a file on disk differs from git's index and from `target_commit`.

    An untracked file at a path of that commit counts. Does nothing if `main` is not checked out.
    """
    if not on_main(git):
        return
    index, target = _index(git), _listing(git, target_commit)
    for path in sorted(index.keys() | target.keys()):
        if _on_disk(work_tree / path) not in {index.get(path), target.get(path)}:
            raise ConfigError(
                f"{work_tree / path} has changes that are not committed",
                hint=f"commit them, or put them away: git -C {work_tree} stash",
            )


def follow_main(git: Git, work_tree: Path) -> None:
    """Updates git's index and the checked-out files to `main`, if that branch is checked out.

    The user's edits are overwritten, so call `check_clean` first. Raises ConfigError if git fails.
    """
    if not on_main(git) or _is_current(git, work_tree):
        return
    try:
        git.run("read-tree", "--reset", "-u", MAIN)
    except GitError as error:
        raise ConfigError(
            f"cannot update the files in {work_tree}: {error.stderr.strip()[-200:]}",
            hint=f"move the named file away, then run the same command again in {work_tree}",
        ) from error


def _is_current(git: Git, work_tree: Path) -> bool:
    target = _listing(git, MAIN)
    return _index(git) == target and all(
        _on_disk(work_tree / path) == oid for path, oid in target.items()
    )


def _index(git: Git) -> Mapping[str, str]:
    rows = git.run("ls-files", "--stage", "-z").stdout.split(b"\0")
    return dict(_staged(row) for row in rows if row)


def _staged(row: bytes) -> tuple[str, str]:
    head, _, name = row.partition(b"\t")
    return name.decode("utf-8", "surrogateescape"), head.split()[1].decode("ascii")


def _listing(git: Git, commit: str) -> Mapping[str, str]:
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", commit).stdout.split(b"\0")
    return dict(_listed(row) for row in rows if row)


def _listed(row: bytes) -> tuple[str, str]:
    head, _, name = row.partition(b"\t")
    return name.decode("utf-8", "surrogateescape"), head.split()[2].decode("ascii")


def _on_disk(path: Path) -> str | None:
    """Returns the blob id of a regular file, None without a file, or a mark for others."""
    if path.is_symlink() or path.is_dir():
        return "not a regular file"
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
