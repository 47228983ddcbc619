"""Bug-fix commits of a history, as values: what they changed in the source and in the tests.

Promises: only what the text of commit and files says; nothing runs here. A commit that is no
candidate comes with the reason. Does not cover: fixes that came without a test, and merges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from meta_agent.core.history import ForeignHistory, PastCommit
from meta_agent.domains.swe import Tree, is_test_path, make_patch
from meta_agent.domains.swe.grading._sift import is_control_path
from meta_agent.domains.tasks._names import offered_names

MAX_SOURCE_LINES = 200
MAX_SOURCE_FILES = 8
Changes = dict[str, bytes | None]
_FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bug(s|fix)?|regress\w*|correct(s|ed|ly)?|wrong\w*|crash\w*|fail\w*|"
    r"broken|breaks?|incorrect\w*|handle[sd]?|repair\w*|resolve[sd]?|prevent(s|ed)?|security|"
    r"vulnerab\w*)\b",
    re.IGNORECASE,
)
# What a whole message says of itself; that a title ends in a pull request's number says nothing.
_CLOSES = re.compile(
    r"\b((fix|close|resolve)[sd]?|fixes|fixed):? +(\w+/\w+)?#\d+|\b(cve-\d+-\d+|ghsa(-\w{4}){3})\b",
    re.IGNORECASE,
)
_PROSE = (".md", ".rst", ".txt", ".cfg", ".toml", ".yml", ".yaml", ".ini", ".in", ".lock")


@dataclass(frozen=True)
class Fix:
    """One candidate. `before` is the whole tree of the parent commit."""

    commit: PastCommit
    before: Tree
    source: Changes
    tests: Changes

    @property
    def patch(self) -> str:
        return make_patch(self.before, self.source)

    @property
    def introduced(self) -> frozenset[str]:
        """Names that can be called, read or passed with the fix and nowhere without it."""
        after = (content for content in self.source.values() if content)
        before = (text for path, text in self.before.items() if path.endswith(".py"))
        return frozenset().union(*map(offered_names, after)) - frozenset().union(
            *map(offered_names, before)
        )

    @property
    def added_lines(self) -> list[str]:
        """What the fix puts in."""
        return [line[1:] for line in self.patch.split("\n") if re.match(r"\+(?!\+\+ )", line)]


def read_fixes(history: ForeignHistory, *, any_message: bool) -> Iterator[Fix | str]:
    """Candidates, newest first; for other commits the reason why not."""
    for commit in history.commits():
        yield _candidate(history, commit, any_message)


def _candidate(history: ForeignHistory, commit: PastCommit, any_message: bool) -> Fix | str:
    source = [path for path in commit.changed if _is_source(path)]
    tests = [path for path in commit.changed if is_test_path(path)]
    if not any(path.endswith(".py") for path in source) or not tests:
        return "does not touch both source and tests"
    told = _FIX.search(commit.subject) or _CLOSES.search(commit.message)
    if not any_message and not told:
        return "its title does not speak of a fix and its message closes no issue"
    before, after = history.tree(commit.parent), history.tree(commit.id)
    changed = (_changes(before, after, source), _changes(before, after, tests))
    if None in changed:
        return "changes files that are not text"
    return _bounded(Fix(commit, before, changed[0] or {}, changed[1] or {}))


def _bounded(fix: Fix) -> Fix | str:
    lines = re.findall(r"^[+-](?!\+\+ |-- )", fix.patch, re.MULTILINE)
    if len(lines) > MAX_SOURCE_LINES or len(fix.source) > MAX_SOURCE_FILES:
        return f"changes over {MAX_SOURCE_LINES} lines or {MAX_SOURCE_FILES} files of source"
    return fix if lines else "changes no text of the source"


def _is_source(path: str) -> bool:
    prose = path.endswith(_PROSE) or PurePosixPath(path).parts[0] in ("docs", "doc", ".github")
    return not (prose or is_test_path(path) or is_control_path(path))


def _changes(before: Tree, after: Tree, paths: list[str]) -> Changes | None:
    changes: Changes = {path: after.get(path) for path in paths}
    try:
        for content in (*changes.values(), *(before.get(path) for path in paths)):
            (content or b"").decode()
    except UnicodeDecodeError:
        return None
    return {path: new for path, new in changes.items() if new != before.get(path)}
