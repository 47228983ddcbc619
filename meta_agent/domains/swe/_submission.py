"""Writes down what an agent changed in its sandbox as a patch, before anything is scored.

Promises: test edits and configuration edits are in the patch as well (the sieve judges them later);
the text is bounded; what cannot be written as text is named, not lost silently.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from meta_agent.core.protocols import Sandbox
from meta_agent.domains.swe._patch import Changes, is_inside, make
from meta_agent.domains.swe._tree import Listed, ListingError, Tree, list_files

_MAX_FILES = 200
_MAX_FILE_BYTES = 1 << 20
_MAX_PATCH_CHARS = 2 << 20


@dataclass(frozen=True, slots=True)
class Submission:
    """The diff of one attempt. `left_out` maps changed paths that the diff lacks to the reasons."""

    patch: str
    left_out: dict[str, str]


def capture(sandbox: Sandbox, base: Tree, python: str) -> Submission:
    """Returns the diff from `base` to the sandbox's `repo/`. It is empty if listing files fails."""
    try:
        listed = list_files(sandbox, "repo", python)
    except ListingError as problem:
        return Submission("", {"*": f"the tree cannot be listed: {problem}"})
    left_out: dict[str, str] = {}
    paths: list[str] = []
    for file in listed:
        if _unchanged(file, base):
            continue
        reason = _unfit(file) or ("too many files" if len(paths) >= _MAX_FILES else "")
        if reason:
            left_out[file.path] = reason
        else:
            paths.append(file.path)
    present = {file.path for file in listed}
    changes: Changes = {path: None for path in base if path not in present}
    changes.update(_texts(sandbox, paths, left_out))
    return _submission(base, changes, left_out)


def _unchanged(file: Listed, base: Tree) -> bool:
    return file.path in base and hashlib.sha256(base[file.path]).hexdigest() == file.digest


def _submission(base: Tree, changes: Changes, left_out: dict[str, str]) -> Submission:
    readable = {path: new for path, new in changes.items() if _is_text(base.get(path, b""))}
    left_out.update({path: "not text before" for path in changes if path not in readable})
    patch = make(base, readable)
    if len(patch) > _MAX_PATCH_CHARS:
        return Submission("", {**left_out, "*": f"the patch has {len(patch)} characters"})
    return Submission(patch, left_out)


def _unfit(file: Listed) -> str:
    if not is_inside(file.path):
        return "a name that is not plain"
    if not file.plain:
        return "not a regular file"
    return f"{file.size} bytes" if file.size > _MAX_FILE_BYTES else ""


def _texts(sandbox: Sandbox, paths: list[str], left_out: dict[str, str]) -> Changes:
    changes: Changes = {}
    for start in range(0, len(paths), 16):
        batch = paths[start : start + 16]
        contents = sandbox.read([f"repo/{path}" for path in batch])
        for path in batch:
            content = contents.get(f"repo/{path}")
            if content is None or not _is_text(content):
                left_out[path] = "not text"
            else:
                changes[path] = content
    return changes


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
