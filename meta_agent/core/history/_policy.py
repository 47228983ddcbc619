"""Rules for what a sandbox's commits may contain: file names, tree entries and commit text.

Promises: a path that passes is one plain file name per component on every file system (no control
or invisible characters, no `.git*`, no two names that differ only in case or Unicode form), and
lies inside the candidate's allowlist. Text that passes cannot move a terminal's cursor or reorder
what a reader sees.
Does not cover: what the code in those files does; it only ever runs in a sandbox.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from meta_agent.core.harness import matches_any
from meta_agent.core.history._git import IDENTITY
from meta_agent.core.history._limits import AdmissionLimits, refuse
from meta_agent.core.parsing.unseen import unseen

REGULAR_MODES = frozenset({"100644", "100755"})
_HEADERS = ("tree", "parent", "author", "committer")
_PERSON = re.compile(rf"{re.escape(IDENTITY)} \d{{1,11}} [+-]\d{{4}}")
_MARKS = frozenset(" #()+,-./=@_~")
"""What people put into names beside letters and digits, and no shell expands inside of one."""
_NEVER_FIRST = frozenset(" -#=~")
_OVERLAY = 1  # the combining class of strokes across a letter
_RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]|con(in|out)\$|clock\$")


class Entry(NamedTuple):
    """The git mode and object id of one file in a tree."""

    mode: str
    oid: str


class Headers(NamedTuple):
    """A parsed commit from a sandbox: the ids of its tree and parent, and its message."""

    tree: str
    parent: str
    message: str


def commit_headers(raw: bytes, limits: AdmissionLimits) -> Headers:
    """Returns a sandbox's commit, parsed from git's raw bytes.

    Raises CandidateError without exactly one parent, for a foreign author or a hidden character.
    """
    head, _, message = _text(raw, "commit_text").partition("\n\n")
    fields = [line.split(" ", 1) for line in head.split("\n")]
    names = tuple(field[0] for field in fields)
    if "parent" not in names:
        refuse("wrong_base", "the candidate's first commit does not follow its base commit")
    if names.count("parent") > 1:
        refuse("merge_commit", "a commit of the candidate has more than one parent")
    if names != _HEADERS or any(len(field) != 2 for field in fields):
        refuse("commit_headers", f"a commit has the headers {names}; only {_HEADERS} are allowed")
    values = {field[0]: field[1] for field in fields}
    if not (_PERSON.fullmatch(values["author"]) and _PERSON.fullmatch(values["committer"])):
        refuse("commit_identity", f"a commit's author and committer must be {IDENTITY}")
    _check_message(message, limits)
    return Headers(values["tree"], values["parent"], message)


def _check_message(message: str, limits: AdmissionLimits) -> None:
    if len(message.encode()) > limits.message_bytes:
        refuse("message_too_large", f"a commit message has more than {limits.message_bytes} bytes")
    bad = next((c for c in message if c not in "\n\t" and unseen(c)), None)
    if bad is not None:
        refuse("commit_text", f"a commit message holds the hidden character U+{ord(bad):04X}")


def changed_paths(base: Mapping[str, Entry], tip: Mapping[str, Entry]) -> tuple[str, ...]:
    """Returns the sorted paths whose files differ between two trees, or are in only one of them."""
    paths = base.keys() | tip.keys()
    return tuple(sorted(path for path in paths if base.get(path) != tip.get(path)))


def check_entries(
    tip: Mapping[str, Entry], changed: Iterable[str], limits: AdmissionLimits
) -> None:
    """Raises CandidateError if a changed file has a bad name or mode, or if two paths collide.

    `tip` holds the files of the checked commit by path.
    """
    for path in changed:
        check_path(path, limits)
        if path in tip and tip[path].mode not in REGULAR_MODES:
            refuse("not_a_regular_file", f"{path!r} is not a regular file (mode {tip[path].mode})")
    check_collisions(tip)


def _plain(char: str) -> bool:
    """Returns True for letters, digits and accents of any script, and for common ASCII marks.

    A stroke across another sign is refused, because it makes a slash of a letter.
    """
    if char.isascii():
        return char.isalnum() or char in _MARKS
    if unicodedata.combining(char) == _OVERLAY:
        return False
    return unicodedata.category(char)[0] in "LNM" and not unseen(char)


def check_path(path: str, limits: AdmissionLimits) -> None:
    """Raises CandidateError if a path is too long, or special to a file system, a shell or git."""
    if len(path.encode()) > limits.path_bytes:
        refuse("path_name", f"a path has more than {limits.path_bytes} bytes: {path[:60]!r}...")
    if not all(map(_plain, path)):
        refuse("path_name", f"the path {path!r} holds a hidden, wildcard or separator character")
    for part in path.split("/"):
        if part in {"", ".", ".."} or _starts_oddly(part[0]) or part[-1] in " .":
            refuse("path_name", f"the path {path!r} has the part {part!r}, which is not allowed")
        if _RESERVED.fullmatch(_folded(part).partition(".")[0].rstrip()):
            refuse("path_name", f"the path {path!r} names a device on some systems")
        if _folded(part).startswith((".git", "git~")):
            refuse("git_path", f"the path {path!r} would be read by git itself")


def _starts_oddly(char: str) -> bool:
    """Returns True if a name would start like an option, comment, home folder or accent."""
    return char in _NEVER_FIRST or unicodedata.category(char)[0] == "M"


def check_collisions(paths: Iterable[str]) -> None:
    """Raises CandidateError if two paths name the same file or folder on some file system."""
    first_spelling: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth])
            other = first_spelling.setdefault(_folded(prefix), prefix)
            if other != prefix:
                refuse("path_collision", f"{prefix!r} and {other!r} are one path on some systems")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", name).casefold())


def check_allowlist(
    changed: Iterable[str], editable: Sequence[str], protected: Sequence[str]
) -> None:
    """Raises CandidateError if a path matches no `editable` pattern, or a `protected` pattern."""
    for path in changed:
        if not matches_any(editable, path) or matches_any(protected, path):
            refuse("path_outside_allowlist", f"this candidate may not change {path!r}")


def _text(raw: bytes, reason: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        refuse(reason, "a commit's text is not UTF-8")
