"""Makes merge commits and small edit commits without a checkout, a driver or a hook.

Promises: the merge runs in a scratch repository without configuration and attributes, so nothing
that a candidate or a user's config names can execute. The resulting commit depends only on its
parents, message and date.
Does not cover: moving `main`; the caller does, by compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Mapping

from meta_agent.core.history._git import ZERO, Git, GitError, migrate, scratch
from meta_agent.core.history._limits import refuse


def merge_commit(host: Git, onto: str, tip: str, message: str, when: int) -> str:
    """Creates the commit that merges the candidate `tip` into the commit `onto`; returns its id.

    Only what `tip` itself changes is merged. If `onto` lacks commits that `tip` builds on, it goes
    on without their changes. No branch moves. `when` is the date in Unix seconds. Raises
    CandidateError on a conflict.
    """
    with scratch(host) as git:
        # The files of `onto`, as if written for the candidate's base: git then compares with that.
        over = ("commit-tree", f"{onto}^{{tree}}", "-p", f"{tip}^1")
        tree = _merged_tree(git, git.line(*over, stdin=b"onto", when=when), tip, where=onto)
        argv = ("commit-tree", tree, "-p", onto, "-p", tip)
        commit = git.line(*argv, stdin=message.encode(), when=when)
        migrate(git, host, commit, onto)
        return commit


def edit_commit(
    host: Git,
    onto: str,
    edits: Mapping[str, bytes | None],
    message: str,
    when: int,
    modes: Mapping[str, int] | None = None,
) -> str:
    """Creates a commit on top of `onto` with new file contents by path, and returns its id.

    None as content removes the file. `when` is the date in seconds since the epoch. `modes` holds
    git's modes of files by path; a path without one becomes a regular file that is no program.
    """
    with scratch(host) as git:
        git.run("read-tree", onto)
        rows = (
            _row(git, path, content, (modes or {}).get(path, 0o100644))
            for path, content in sorted(edits.items())
        )
        git.run("update-index", "-z", "--index-info", stdin=b"".join(rows))
        argv = ("commit-tree", git.line("write-tree"), "-p", onto)
        commit = git.line(*argv, stdin=message.encode(), when=when)
        migrate(git, host, commit, onto)
        return commit


def revert_commit(host: Git, onto: str, commit: str, message: str, when: int) -> str:
    """Creates a commit on top of `onto` that undoes `commit`, and returns the new commit's id.

    Raises CandidateError if later changes conflict with that, or if nothing is left to undo.
    """
    with scratch(host) as git:
        undone = ("commit-tree", f"{commit}^1^{{tree}}", "-p", commit)
        tree = _merged_tree(git, onto, git.line(*undone, stdin=b"undone", when=when), onto)
        if tree == git.line("rev-parse", "--verify", f"{onto}^{{tree}}"):
            refuse("empty", f"{onto[:12]} has nothing left of the change {commit[:12]} to undo")
        reverting = git.line("commit-tree", tree, "-p", onto, stdin=message.encode(), when=when)
        migrate(git, host, reverting, onto)
        return reverting


def _row(git: Git, path: str, content: bytes | None, mode: int) -> bytes:
    """Returns one file as a line for `update-index`; mode 0 removes it."""
    if content is None:
        return f"0 {ZERO}\t{path}\0".encode()
    oid = git.line("hash-object", "-w", "--stdin", "--no-filters", stdin=content)
    return f"{mode:o} {oid}\t{path}\0".encode()


def _merged_tree(git: Git, onto: str, tip: str, where: str) -> str:
    """Returns the tree of the merge. `where` is the commit that the message of a conflict names."""
    try:
        ran = git.run("merge-tree", "--write-tree", "--name-only", "-z", onto, tip, accept=(0, 1))
    except GitError as error:
        refuse("merge_failed", f"git cannot merge {tip[:12]}: {error.stderr.strip()[-200:]}")
    tree, *rest = ran.stdout.decode("utf-8", "replace").split("\0")
    if ran.exit_code == 1:
        paths = rest[: rest.index("")]
        refuse("merge_conflict", f"{tip[:12]} conflicts with {where[:12]} in {', '.join(paths)}")
    return tree
