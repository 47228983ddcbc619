"""Takes a pack from a sandbox into the host's repository, or refuses it with a reason.

Promises: the host never opens a repository that a sandbox wrote. A pack is scanned, indexed by
`git index-pack --strict --fsck-objects` in a throw-away repository, walked commit by commit from
the announced tip back to the expected base, and only what the tip reaches is copied into the
host's objects; no ref moves here. Refusal codes are the `reason` of `CandidateError`.

Does not cover: moving the ref (`HarnessRepo.admit` does, by compare-and-swap), and whether the
change is any good.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from meta_agent.history._git import Git, GitError, migrate, scratch
from meta_agent.history._limits import AdmissionLimits, refuse
from meta_agent.history._pack import scan
from meta_agent.history._policy import (
    changed_paths,
    check_allowlist,
    check_entries,
    commit_headers,
)
from meta_agent.history._tree import tree_entries

_OID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class AdmittedCommit:
    """A commit that passed every check and is in the host's objects."""

    commit: str
    tree_hash: str
    paths: tuple[str, ...]  # every path that any of its commits changed against the base


@dataclass(frozen=True, slots=True)
class Allowlist:
    """What a candidate may change."""

    editable: Sequence[str]
    protected: Sequence[str]


def admit_pack(
    host: Git, pack: bytes, *, tip: str, base: str, allow: Allowlist, limits: AdmissionLimits
) -> AdmittedCommit:
    """Checks a hand-back and copies its objects to the host."""
    if not _OID.fullmatch(tip):
        refuse("bad_tip", f"{tip[:60]!r} is not a commit id")
    scan(pack, limits)
    with scratch(host) as quarantine:
        _index(quarantine, pack)
        chain = _chain(quarantine, tip, base, limits)
        paths = _walk(quarantine, chain, base, allow, limits)
        migrate(quarantine, host, tip, base)
        return AdmittedCommit(tip, _tree_of(quarantine, tip), paths)


def _index(quarantine: Git, pack: bytes) -> None:
    try:
        quarantine.run("index-pack", "--stdin", "--strict", "--fsck-objects", stdin=pack)
    except GitError as error:
        refuse("pack_rejected", f"git refused the pack: {error.stderr.strip()[-200:]!r}")


def _chain(quarantine: Git, tip: str, base: str, limits: AdmissionLimits) -> list[str]:
    """The commits from the tip down to, and without, the base."""
    chain: list[str] = []
    at = tip
    while at != base:
        if len(chain) == limits.commits:
            refuse("wrong_base", f"{base[:12]} is not within {limits.commits} commits of the tip")
        chain.append(at)
        at = commit_headers(_raw_commit(quarantine, at), limits).parent
    if not chain:
        refuse("empty", "the tip is the base: nothing was committed")
    return chain


def _raw_commit(quarantine: Git, oid: str) -> bytes:
    try:
        return quarantine.run("cat-file", "commit", oid).stdout
    except GitError:
        refuse("missing_object", f"{oid[:12]} is not a commit in the pack or the history")


def _walk(
    quarantine: Git, chain: list[str], base: str, allow: Allowlist, limits: AdmissionLimits
) -> tuple[str, ...]:
    """Checks every commit's tree, not only the last: people check out commits in between."""
    before = tree = tree_entries(quarantine, base, limits)
    paths = set[str]()
    for commit in reversed(chain):
        tree = tree_entries(quarantine, commit, limits)
        changed = changed_paths(before, tree)
        check_entries(tree, changed, limits)
        check_allowlist(changed, allow.editable, allow.protected)
        paths.update(changed)
    if not changed_paths(before, tree):
        refuse("empty", "the candidate changes no file")
    return tuple(sorted(paths))


def _tree_of(git: Git, commit: str) -> str:
    return git.line("rev-parse", "--verify", f"{commit}^{{tree}}")
