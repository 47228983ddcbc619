"""Paths and glob patterns of a harness: which paths are allowed, and what a pattern means.

Promises: a path that passes `safe_path` names one ordinary file below the tree on every supported
file system, and cannot be mistaken for git's own files. A pattern means the same on every machine:
`*` is any run of characters but `/`, `?` is one such character, and `**`, alone between slashes, is
any number of whole segments, even none; a final `**` needs at least one.
Does not cover: what a file holds; links (git's walk refuses them); brackets in patterns, which are
refused because readers disagree about their meaning.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from meta_agent.core.errors import CandidateError, ConfigError

MAX_PATH_CHARS = 240
_GIT_OWN = (".git", ".gitmodules", ".gitattributes")


def safe_path(path: str) -> str:
    """Returns `path` unchanged if it is a plain relative path of a file.

    Raises `CandidateError`, reason `hostile_path`, for others, such as one with `..` or `.git`.
    """
    problem = _problem(path)
    if problem:
        raise CandidateError(f"path {path!r}: {problem}", reason="hostile_path")
    return path


def _problem(path: str) -> str | None:
    if not isinstance(path, str) or not path:
        return "empty"
    if len(path) > MAX_PATH_CHARS:
        return f"{len(path)} characters, the limit is {MAX_PATH_CHARS}"
    if unicodedata.normalize("NFC", path) != path:
        return "not in Unicode normal form C, so two spellings could name one file"
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in path):
        return "has control or invisible characters"
    if "\\" in path or ":" in path:
        return "has a backslash or a colon"
    return next(filter(None, map(_segment_problem, path.split("/"))), None)


def _segment_problem(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return "is absolute, ends in a slash, or has an empty, '.' or '..' segment"
    if segment != segment.strip(" ") or segment.endswith("."):
        return f"segment {segment!r} starts or ends with a space, or ends with a dot"
    if segment.casefold() in _GIT_OWN:
        return f"{segment!r} belongs to git"
    return None


def collisions(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Returns pairs of different paths that a case-insensitive file system takes for the same."""
    first_spelling: dict[str, str] = {}
    pairs = []
    for path in sorted(paths):
        first = first_spelling.setdefault(path.casefold(), path)
        if first != path:
            pairs.append((first, path))
    return pairs


def check_pattern(pattern: str) -> str:
    """Returns `pattern` unchanged. Raises `ConfigError` if it uses more than `*`, `?` and `**`."""
    if not pattern or any(char in pattern for char in "[]{}\\!"):
        raise ConfigError(f"the path pattern {pattern!r} is not valid: use only *, ? and **")
    for segment in pattern.split("/"):
        if segment in ("", ".", "..") or ("**" in segment and segment != "**"):
            raise ConfigError(
                f"the path pattern {pattern!r} has the part {segment!r}; no part may be "
                "empty, '.' or '..', or mix ** with other text"
            )
    return pattern


def matches(pattern: str, path: str) -> bool:
    """Returns True if the glob `pattern` (with `*`, `?` and `**`) matches the whole `path`."""
    return _compiled(pattern).fullmatch(path) is not None


def matches_any(patterns: Iterable[str], path: str) -> bool:
    """Returns True if any of the glob patterns matches the whole `path`."""
    return any(matches(pattern, path) for pattern in patterns)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    segments = check_pattern(pattern).split("/")
    *leading, last = segments
    text = "".join("(?:[^/]+/)*" if part == "**" else _segment(part) + "/" for part in leading)
    return re.compile(text + ("(?:[^/]+/)*[^/]+" if last == "**" else _segment(last)))


def _segment(text: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(char) or re.escape(char) for char in text)
