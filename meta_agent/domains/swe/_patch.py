"""Unified diffs as values: parse, apply, make. Pure text in, text out.

Promises: `apply` changes exactly what the hunks say or raises `PatchError` (a hunk may sit at
another line, never in another context); paths are relative and stay inside the tree;
`apply(make(a, b), a)` is `b` for text trees. Needed here because the host starts no processes and
must know, before anything runs, which files a patch touches.

Does not cover: binary patches, quoted paths and file modes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 2048
_NO_NEWLINE = "\\ No newline at end of file"

Changes = dict[str, bytes | None]  # path -> new content, None where the file goes


class PatchError(ValueError):
    """Raised if a patch cannot be read, or does not fit the files that it changes."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """A change to consecutive lines: from `before`, which begin at line `start`, to `after`."""

    start: int  # index of the first line of `before`, from 0
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The change to one file. `old` is None for a new file, `new` is None for a deleted one."""

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]

    @property
    def paths(self) -> frozenset[str]:
        """Returns the old and the new path of the file, without None."""
        return frozenset(path for path in (self.old, self.new) if path)


def parse(text: str) -> list[FilePatch]:
    """Returns the change to each file of a unified diff. Raises PatchError if it is malformed."""
    lines = text.removesuffix("\n").split("\n")
    patches: list[FilePatch] = []
    header: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("--- ", "@@ ")):
            patch, at = _file(lines, at)
            patches.append(patch)
            header = {}
            continue
        if line.startswith("diff --git "):
            patches += _headers_only(header)
            header = {"git": line}
        else:
            _note_header(line, header)
        at += 1
    return [*patches, *_headers_only(header)]


def apply(tree: Mapping[str, bytes], patches: list[FilePatch]) -> Changes:
    """Returns changed files by path (None: deleted). Raises PatchError if a patch does not fit."""
    changes: Changes = {}
    for patch in patches:
        before = _content(tree, changes, patch.old)
        after = _patched(before, patch)
        if patch.old and patch.old != patch.new:
            changes[patch.old] = None
        if patch.new:
            changes[patch.new] = _encoded(after, patch.new)
    return changes


def _encoded(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as problem:  # half a surrogate pair
        raise PatchError(f"the new text of {path} cannot be UTF-8: correct the patch") from problem


def make(before: Mapping[str, bytes], after: Mapping[str, bytes | None]) -> str:
    """Returns the unified diff from `before` to `after`, the changed text files (None: deleted)."""
    return "".join(_file_diff(path, before.get(path), after[path]) for path in sorted(after))


def overlay(tree: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """Returns the files of `tree` with `changes` applied. None as content deletes a file."""
    merged = {**tree, **changes}
    return {path: content for path, content in merged.items() if content is not None}


def split_lines(text: str) -> list[str]:
    """Returns the lines of a text with their newlines. Nothing but a newline ends a line."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def is_inside(path: str) -> bool:
    """Returns whether a path is relative, normalised, printable and without a `..` part."""
    parts = PurePosixPath(path).parts
    bad = not path or path.startswith("/") or ".." in parts or "\\" in path
    bad |= any(len(part.encode("utf-8", "replace")) > _MAX_NAME_BYTES for part in parts)
    bad |= len(path.encode("utf-8", "replace")) > _MAX_PATH_BYTES
    return not bad and path == str(PurePosixPath(path)) and path.isprintable()


def _note_header(line: str, header: dict[str, str]) -> None:
    if line.startswith(("GIT binary patch", "Binary files ")):
        raise PatchError(f"leave the binary file out of the patch: {line[:80]!r}")
    for name in ("rename from ", "rename to ", "new file mode ", "deleted file mode "):
        if line.startswith(name):
            header[name.strip()] = line[len(name) :]


def _headers_only(header: dict[str, str]) -> Iterator[FilePatch]:
    """Yields a file without hunks: a pure rename, an empty new file, an empty deleted file."""
    if "rename from" in header:
        yield FilePatch(_path(header["rename from"]), _path(header["rename to"]), ())
    elif "new file mode" in header:
        yield FilePatch(None, _git_path(header["git"]), ())
    elif "deleted file mode" in header:
        yield FilePatch(_git_path(header["git"]), None, ())


def _git_path(line: str) -> str:
    match = re.fullmatch(r"diff --git a/(.+) b/(\1)", line)
    if not match:
        raise PatchError(f"expected `diff --git a/PATH b/PATH`, not {line[:120]!r}")
    return _path(match.group(1))


def _line(lines: list[str], at: int) -> str:
    if at >= len(lines):
        raise PatchError(f"the patch ends at line {at}, in the middle of a hunk: complete it")
    return lines[at]


def _file(lines: list[str], at: int) -> tuple[FilePatch, int]:
    """Returns the change to one file, and where the next lines are."""
    old, new = _side(lines, at, "--- ", "a/"), _side(lines, at + 1, "+++ ", "b/")
    if old is None and new is None:
        raise PatchError("name a path: /dev/null is both the old and the new file of the patch")
    at += 2
    hunks = []
    while at < len(lines) and lines[at].startswith("@@ "):
        hunk, at = _hunk(lines, at)
        hunks.append(hunk)
    if not hunks:
        raise PatchError(f"line {at} of the patch: {new or old} has no hunk; add one (@@ ... @@)")
    return FilePatch(old, new, tuple(hunks)), at


def _side(lines: list[str], at: int, mark: str, prefix: str) -> str | None:
    line = _line(lines, at)
    if not line.startswith(mark):
        raise PatchError(f"a line of the patch must begin with {mark!r}: {line[:80]!r}")
    name = line[len(mark) :].split("\t", 1)[0]
    return None if name == "/dev/null" else _path(name.removeprefix(prefix))


def _path(name: str) -> str:
    if not is_inside(name) or name.startswith('"'):
        raise PatchError(f"a path must be relative and inside the tree, not {name[:120]!r}")
    return name


def _hunk(lines: list[str], at: int) -> tuple[Hunk, int]:
    head = lines[at]
    match = _HUNK.match(head)
    if not match:
        raise PatchError(f"expected a hunk header @@ -1,2 +1,2 @@, not {head[:80]!r}")
    old_start, old_count, new_count = int(match[1]), int(match[2] or 1), int(match[4] or 1)
    before: list[str] = []
    after: list[str] = []
    sides = {" ": (before, after), "-": (before,), "+": (after,)}
    last: tuple[list[str], ...] = ()
    at += 1
    while (
        len(before) < old_count
        or len(after) < new_count
        or (at < len(lines) and lines[at].startswith("\\"))
    ):
        line = _line(lines, at)
        kind = line[:1] or " "  # some tools strip the blank of an empty context line
        if kind == "\\":  # no newline at the end
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
        elif kind in sides:
            last = sides[kind]
            for side in last:
                side.append(line[1:] + "\n")
        else:
            raise PatchError(f"a line of a hunk must begin with a blank, + or -: {line[:80]!r}")
        at += 1
    if (len(before), len(after)) != (old_count, new_count):
        raise PatchError(f"correct the line counts of {head[:60]!r}: its hunk has other numbers")
    # With no old lines the header names the line *before* the insertion.
    start = old_start - 1 if old_count else old_start
    return Hunk(max(start, 0), tuple(before), tuple(after)), at


def _content(tree: Mapping[str, bytes], changes: Changes, path: str | None) -> str:
    if path is None:
        return ""
    content = changes[path] if path in changes else tree.get(path)
    if content is None:
        raise PatchError(f"the patch changes {path}, which is not in the tree: correct the path")
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        raise PatchError(f"leave {path} out of the patch: it is not UTF-8 text") from problem


def _patched(before: str, patch: FilePatch) -> str:
    lines = split_lines(before)
    shift = 0
    for number, hunk in enumerate(patch.hunks, 1):
        at = _find(lines, hunk, hunk.start + shift)
        if at is None:
            raise PatchError(f"{patch.new or patch.old} lacks the old lines of hunk {number}")
        lines[at : at + len(hunk.before)] = hunk.after
        shift = at - hunk.start + len(hunk.after) - len(hunk.before)
    if patch.new is None and lines:
        raise PatchError(f"the patch deletes {patch.old}, so it must remove all its lines")
    return "".join(lines)


def _find(lines: list[str], hunk: Hunk, expected: int) -> int | None:
    """Returns the place nearest to the expected one where the old lines stand."""
    expected = min(expected, len(lines))
    size = len(hunk.before)
    for distance in range(len(lines) + 1):
        for at in (expected - distance, expected + distance):
            if 0 <= at <= len(lines) - size and tuple(lines[at : at + size]) == hunk.before:
                return at
    return None


def _file_diff(path: str, before: bytes | None, after: bytes | None) -> str:
    if before == after:
        return ""
    old, new = (split_lines((side or b"").decode()) for side in (before, after))
    mode = "new file mode 100644\n" if before is None else ""
    mode = "deleted file mode 100644\n" if after is None else mode
    header = f"diff --git a/{path} b/{path}\n{mode}"
    names = (
        "/dev/null" if before is None else f"a/{path}",
        "/dev/null" if after is None else f"b/{path}",
    )
    return header + "".join(_terminated(line) for line in difflib.unified_diff(old, new, *names))


def _terminated(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n"
