"""Copies a sandbox's commits into the host's repository, or refuses them with a reason.

Promises: the host never opens a repository that a sandbox wrote. A pack (git's transfer file) is
scanned, indexed by `git index-pack --strict --fsck-objects` in a throw-away repository, and walked
commit by commit from its last commit back to the expected base. Only what that last commit reaches
is copied into the host's objects; no ref moves here. A refusal is a `CandidateError`.
Does not cover: moving the ref (`HarnessRepo.admit` does, by compare-and-swap), and whether the
change is any good.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meta_agent.core.history._git import Git, GitError, migrate, read_commit, read_object, scratch
from meta_agent.core.history._limits import AdmissionLimits, refuse
from meta_agent.core.history._pack import scan
from meta_agent.core.history._policy import (
    Headers,
    changed_paths,
    check_allowlist,
    check_entries,
    commit_headers,
)
from meta_agent.core.history._tree import tree_entries

_OID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class AdmittedCommit:
    """A commit from a sandbox that passed every check and was copied into the host's repository."""

    commit: str
    tree_hash: str
    paths: tuple[str, ...]  # every path that any of its commits changed against the base


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The patterns of paths that a candidate may edit, and of paths that stay protected."""

    editable: Sequence[str]
    protected: Sequence[str]


def admit_pack(
    host: Git, pack: bytes, *, tip: str, base: str, allow: Allowlist, limits: AdmissionLimits
) -> AdmittedCommit:
    """Checks the commits after `base` up to `tip` in a sandbox's git pack; copies them to `host`.

    Returns the last commit with all changed paths. Raises CandidateError with a reason if a check
    fails; then nothing is copied.
    """
    if not _OID.fullmatch(tip):
        refuse("bad_tip", f"the sandbox named {tip[:60]!r} as its commit, which is not a commit id")
    scan(pack, limits)
    with scratch(host) as quarantine:
        _index(quarantine, pack)
        with quarantine.reader() as objects:
            chain = _chain(objects, tip, base, limits)
            paths = _walk(objects, chain, base, allow, limits)
        migrate(quarantine, host, tip, base)
        return AdmittedCommit(tip, chain[0].tree, paths)


def _index(quarantine: Git, pack: bytes) -> None:
    try:
        quarantine.run("index-pack", "--stdin", "--strict", "--fsck-objects", stdin=pack)
    except GitError as error:
        refuse("pack_rejected", f"git refused the commits it got: {error.stderr.strip()[-200:]!r}")


def _chain(objects: Any, tip: str, base: str, limits: AdmissionLimits) -> list[Headers]:
    """Returns the commits from the tip down to the base, without the base."""
    chain: list[Headers] = []
    at = tip
    while at != base:
        if len(chain) == limits.commits:
            refuse("wrong_base", f"the base {base[:12]} is over {limits.commits} commits back")
        chain.append(commit_headers(_raw_commit(objects, at), limits))
        at = chain[-1].parent
    if not chain:
        refuse("empty", "the candidate has no commit: nothing was committed")
    return chain


def _raw_commit(objects: Any, oid: str) -> bytes:
    raw = read_object(objects, oid, b"commit")
    if raw is None:
        refuse("missing_object", f"{oid[:12]} is neither a commit of the pack nor of the history")
    return raw


def _walk(
    objects: Any, chain: list[Headers], base: str, allow: Allowlist, limits: AdmissionLimits
) -> tuple[str, ...]:
    """Checks every commit's tree, as people may check out any; returns the changed paths."""
    before = tree = tree_entries(objects, read_commit(objects, base).tree, limits)
    paths = set[str]()
    for commit in reversed(chain):
        tree = tree_entries(objects, commit.tree, limits)
        changed = changed_paths(before, tree)
        check_entries(tree, changed, limits)
        check_allowlist(changed, allow.editable, allow.protected)
        paths.update(changed)
    if not changed_paths(before, tree):
        refuse("empty", "the candidate changes no file")
    return tuple(sorted(paths))
