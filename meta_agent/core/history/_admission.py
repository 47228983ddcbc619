"""Checks a set of edited files, and makes the candidate's commit of it on the host.

Promises: no git object of a sandbox reaches the host. A sandbox or a program hands back contents by
path; the host checks them and writes the commit itself, with its own message and date. So the same
edits give the same commit id. A file that exists keeps its mode; a new one is no program. A refusal
is a `CandidateError`, and then no object stays.

Does not cover: moving the ref (`HarnessRepo.admit` does, by compare-and-swap), and whether the
change is any good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_agent.core.history._git import Git, read_commit, read_files
from meta_agent.core.history._limits import AdmissionLimits, refuse
from meta_agent.core.history._merging import edit_commit
from meta_agent.core.history._policy import (
    check_allowlist,
    check_collisions,
    check_message,
    check_path,
)

_REGULAR = frozenset({0o100644, 0o100755})
Edits = Mapping[str, bytes | None]
"""New contents by path; None removes the file."""


@dataclass(frozen=True, slots=True)
class AdmittedCommit:
    """A candidate's commit, which the host made of edits that passed every check."""

    commit: str
    tree_hash: str
    paths: tuple[str, ...]  # every path that it changes against the base


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The patterns of paths that a candidate may edit, and of paths that stay protected."""

    editable: Sequence[str]
    protected: Sequence[str]


def admit_edits(
    host: Git,
    edits: Edits,
    *,
    base: str,
    message: str,
    when: int,
    allow: Allowlist,
    limits: AdmissionLimits,
) -> AdmittedCommit:
    """Checks edits of the commit `base`, and commits those that change something, on top of it.

    `when` is the date in seconds since the epoch. Raises CandidateError if a check fails.
    """
    with host.reader() as objects:
        before = read_files(objects, base)
    changed = {
        path: data
        for path, data in edits.items()
        if data != (before[path][1] if path in before else None)
    }
    if not changed:
        refuse("empty", "the candidate changes no file; change at least one")
    for path in changed:
        check_path(path, limits)
        if path in before and before[path][0] not in _REGULAR:
            refuse("not_a_regular_file", f"{path!r} is not a regular file: leave it as it is")
    after = {path: data for path, (_, data) in before.items()} | changed
    _check_sizes({path: data for path, data in after.items() if data is not None}, changed, limits)
    check_collisions(path for path, data in after.items() if data is not None)
    check_allowlist(changed, allow.editable, allow.protected)
    check_message(message, limits)
    modes = {path: mode for path, (mode, _) in before.items()}
    commit = edit_commit(host, base, changed, message, when, modes)
    with host.reader() as objects:
        tree = read_commit(objects, commit).tree
    return AdmittedCommit(commit, tree, tuple(sorted(changed)))


def _check_sizes(after: Mapping[str, bytes], changed: Edits, limits: AdmissionLimits) -> None:
    if len(after) > limits.files:
        refuse("too_many_files", f"the candidate has {len(after)} files; at most {limits.files}")
    for path, data in changed.items():
        if data is not None and len(data) > limits.file_bytes:
            refuse("file_too_large", f"{path!r} has {len(data)} bytes; at most {limits.file_bytes}")
    if (total := sum(map(len, after.values()))) > limits.total_bytes:
        refuse("tree_too_large", f"the files have {total} bytes; at most {limits.total_bytes}")
