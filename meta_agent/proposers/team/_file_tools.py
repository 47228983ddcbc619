"""The tools that only read: files by line range and by search, served from memory by trusted code.

Every role has them, over evidence and harness sources.

Promises: whatever the sizes, an answer is at most a page; line numbers are those of the file, so
that a quotation can be checked. Searching is for plain text (`a|b`: either), since a pattern from a
model could keep a regular expression busy for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice

from meta_agent.proposers.team._fence import Fence, clip
from meta_agent.proposers.team._limits import LINE_CHARS, PAGE_LINES, RESULT_CHARS, SEARCH_HITS
from meta_agent.proposers.team._tools import (
    TEXT,
    WHOLE,
    Arguments,
    Tool,
    ToolError,
    text_of,
    tool,
    whole_of,
)

_LISTED = 200
_SERIES = 8
"""Files that differ in their number alone are listed up to so many."""
_COUNTED = 5_000
"""Hits beyond those shown are counted so far."""

_UNDER = "a folder, or how paths begin: evidence/rollouts/search-"
_SEARCH = "Finds lines that hold a text (plain, either case; `a|b` finds either), as path:line."


@dataclass(frozen=True)
class Files:
    """Files, by path, that a model may list, read and search."""

    files: Mapping[str, bytes]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", lru_cache(maxsize=64)(self._lines))

    def _lines(self, path: str) -> list[str]:
        data = self.files.get(path)
        if data is None:
            raise ToolError(f"there is no file {path!r}; list_files shows what there is")
        return data.decode("utf-8", "replace").split("\n")

    def listing(self, under: str = "") -> str:
        """Returns paths that begin with `under`, one a line. Raises ToolError if there are none."""
        below = self._below(under)
        if not below:
            raise ToolError(f"there is no file below {under!r}; leave `under` out to list all")
        rows = []
        for _, group in groupby(below, key=_unnumbered):
            paths = list(group)
            if len(paths) > _SERIES:
                rows.append(f"{paths[0]} ... {paths[-1]}  ({len(paths)} files)")
            else:
                rows += [f"{path}  ({_count(self.files[path])} lines)" for path in paths]
        if len(rows) > _LISTED:
            rows[_LISTED:] = [f"... and {len(rows) - _LISTED} more; name a folder"]
        return "\n".join(rows)

    def _below(self, under: str) -> list[str]:
        """Returns the paths that begin with `under`, in order; it may end inside a name."""
        prefix = under.strip().removeprefix("./").lstrip("/")
        return sorted(path for path in self.files if path.startswith(prefix))

    def read(self, path: str, start: int = 1, count: int = PAGE_LINES) -> str:
        """Returns numbered lines of a file and where to read on. Raises ToolError if unknown."""
        lines = self._lines(path.strip().removeprefix("./"))
        return page(lines, start, count)

    def count(self, text: str, under: str = "") -> str:
        """Returns a sentence on how many lines in paths beginning with `under` hold `text`."""
        hits = [path for path, _, _ in self._hits(_words(text), under)]
        return f"{len(hits)} lines in {len(set(hits))} of {len(self._below(under))} files"

    def search(self, text: str, under: str = "") -> str:
        """Returns the lines with `text` (or one of `a|b`) in paths that begin with `under`."""
        hits = (f"{p}:{n}: {_short(line, 240)}" for p, n, line in self._hits(_words(text), under))
        rows = list(islice(hits, SEARCH_HITS + _COUNTED))
        if (more := len(rows) - SEARCH_HITS) > 0:
            count = f"at least {more}" if more == _COUNTED else more
            rows[SEARCH_HITS:] = [f"... and {count} more lines; search `under` fewer paths"]
        return clip("\n".join(rows), RESULT_CHARS) or f"no line holds {text!r}"

    def _hits(self, words: list[str], under: str) -> Iterator[tuple[str, int, str]]:
        """Yields path, number and text of each line that holds one of the words."""
        for path in self._below(under):
            for number, line in enumerate(self._lines(path), start=1):
                if any(word in line.lower() for word in words):
                    yield path, number, line.strip()

    def where(self, path: str, quote: str, near: int) -> int | None:
        """Returns the number of the line that holds `quote` nearest to line `near`, or None."""
        words = " ".join(quote.split())
        if not words or path not in self.files:
            return None
        lines = self._lines(path)
        numbers = [n for n, line in enumerate(lines, start=1) if words in " ".join(line.split())]
        return min(numbers, key=lambda n: (abs(n - near), n), default=None)


def page(lines: list[str], start: int, count: int) -> str:
    """Returns at most `count` numbered lines from line `start`, and where to read on."""
    if lines and lines[-1] == "":
        lines = lines[:-1]
    rows, size = [], 0
    for number in range(start, min(start + count, len(lines) + 1)):
        row = f"{number}: {_short(lines[number - 1], LINE_CHARS)}"
        size += len(row) + 1
        if size > RESULT_CHARS:
            break
        rows.append(row)
    end = start + len(rows) - 1
    if end < len(lines):
        rows.append(f"[lines {start}-{end} of {len(lines)}; go on at {end + 1}]")
    return "\n".join(rows) if rows else f"[the file has {len(lines)} lines]"


def _words(text: str) -> list[str]:
    words = [word.lower() for word in text.split("|") if word.strip()]
    if not words:
        raise ToolError("'text' is empty")
    return words


def _unnumbered(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def _short(line: str, limit: int) -> str:
    return line if len(line) <= limit else f"{line[:limit]}[... {len(line) - limit} more]"


def _count(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def reading_tools(files: Files, fence: Fence, opened: set[str] | None = None) -> list[Tool]:
    """Returns the tools list_files, read_file and search; paths read are added to `opened`."""

    def listing(arguments: Arguments) -> str:
        under = text_of(arguments, "under", default="")
        return fence.wrap(f"files below {under or 'everything'}", files.listing(under))

    def read(arguments: Arguments) -> str:
        path = text_of(arguments, "path")
        start = whole_of(arguments, "start_line", default=1)
        count = whole_of(arguments, "lines", default=PAGE_LINES)
        text = files.read(path, start, count)
        if opened is not None:
            opened.add(path)
        return fence.wrap(path, text)

    return [
        tool(
            "list_files",
            "Lists paths and their numbers of lines: the harness's own files, and evidence/...",
            {"under": {**TEXT, "description": _UNDER}},
            listing,
            optional=("under",),
        ),
        tool(
            "read_file",
            f"Reads numbered lines of a file, {PAGE_LINES} unless told.",
            {"path": TEXT, "start_line": WHOLE, "lines": WHOLE},
            read,
            optional=("start_line", "lines"),
        ),
        search_tool(lambda: files, fence),
    ]


def search_tool(files_of: Callable[[], Files], fence: Fence) -> Tool:
    """Returns the tool `search`, which searches what `files_of` returns at each call."""

    def search(arguments: Arguments) -> str:
        files = files_of()
        text, under = text_of(arguments, "text"), text_of(arguments, "under", default="")
        look = files.count if arguments.get("count_only") else files.search
        return fence.wrap(f"lines with {text!r}", look(text, under))

    count_only = {"type": "boolean", "description": "only how many lines, in how many files"}
    arguments = {"text": TEXT, "under": {**TEXT, "description": _UNDER}, "count_only": count_only}
    return tool("search", _SEARCH, arguments, search, optional=("under", "count_only"))
