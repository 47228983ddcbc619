"""Rules for what a candidate may contain: file names and the text of its commit.

Promises: a path that passes is one plain file name per component on every file system (no control
or invisible characters, no `.git*`, no two names that differ only in case or Unicode form), and
lies inside the candidate's allowlist. Text that passes cannot move a terminal's cursor or reorder
what a reader sees.
Does not cover: what the code in those files does; it only ever runs in a sandbox.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from meta_agent.core.harness import matches_any
from meta_agent.core.history._limits import AdmissionLimits, refuse
from meta_agent.core.parsing.unseen import unseen

_MARKS = frozenset(" #()+,-./=@_~")
"""What people put into names beside letters and digits, and no shell expands inside of one."""
_NEVER_FIRST = frozenset(" -#=~")
_OVERLAY = 1  # the combining class of strokes across a letter
_RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]|con(in|out)\$|clock\$")


def check_message(message: str, limits: AdmissionLimits) -> None:
    """Raises CandidateError if a commit message is too long or holds a hidden character."""
    if len(message.encode("utf-8", "surrogatepass")) > limits.message_bytes:
        refuse("message_too_large", f"a commit message has more than {limits.message_bytes} bytes")
    bad = next((c for c in message if c not in "\n\t" and unseen(c)), None)
    if bad is not None:
        refuse("commit_text", f"a commit message holds the hidden character U+{ord(bad):04X}")


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
    if len(path.encode("utf-8", "surrogatepass")) > limits.path_bytes:
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
    names, folders = set(paths), set[str]()
    for path in sorted(names):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth])
            if depth < len(parts):
                folders.add(prefix)
            other = first_spelling.setdefault(_folded(prefix), prefix)
            if other != prefix:
                refuse("path_collision", f"{prefix!r} and {other!r} are one path on some systems")
    if both := sorted(names & folders):
        refuse("path_collision", f"{both[0]!r} is a file and a folder")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", name).casefold())


def check_allowlist(
    changed: Iterable[str], editable: Sequence[str], protected: Sequence[str]
) -> None:
    """Raises CandidateError if a path matches no `editable` pattern, or a `protected` pattern."""
    for path in changed:
        if not matches_any(editable, path) or matches_any(protected, path):
            refuse("path_outside_allowlist", f"this candidate may not change {path!r}")
