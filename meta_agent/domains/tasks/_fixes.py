"""Bug-fix commits of a history, as values: what they changed in the source and in the tests.

Promises: only texts are read; nothing runs here. A commit that is no candidate yields the reason.
Does not cover: fixes that came without a test, and merges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from meta_agent.core.history import ForeignHistory, PastCommit
from meta_agent.domains.swe import Tree, is_test_path, make_patch
from meta_agent.domains.swe.grading._sift import is_control_path

MAX_SOURCE_LINES = 200
MAX_SOURCE_FILES = 8
Changes = dict[str, bytes | None]
_FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bug(s|fix)?|regress\w*|correct(s|ed|ly)?|wrong\w*|crash\w*|fail\w*|"
    r"broken|breaks?|incorrect\w*|handle[sd]?|repair\w*|resolve[sd]?|prevent(s|ed)?|security|"
    r"vulnerab\w*)\b",
    re.IGNORECASE,
)
# Read in the whole message. A pull request's number at the end of a title says nothing.
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
    def added_lines(self) -> list[str]:
        """The lines that the fix adds."""
        return [line[1:] for line in self.patch.split("\n") if re.match(r"\+(?!\+\+ )", line)]


def read_fixes(history: ForeignHistory, *, any_message: bool) -> Iterator[Fix | str]:
    """Yields candidates, newest first; for each other commit the reason why it is none."""
    for commit in history.commits():
        yield _candidate(history, commit, any_message)


def _candidate(history: ForeignHistory, commit: PastCommit, any_message: bool) -> Fix | str:
    source = [path for path in commit.changed if _is_source(path)]
    tests = [path for path in commit.changed if is_test_path(path)]
    if not any(path.endswith(".py") for path in source) or not tests:
        return "does not touch both source and tests"
    is_fix = _FIX.search(commit.subject) or _CLOSES.search(commit.message)
    if not any_message and not is_fix:
        return "its title does not speak of a fix and its message closes no issue"
    before, after = history.tree(commit.parent), history.tree(commit.id)
    try:
        changes = (_changes(before, after, source), _changes(before, after, tests))
    except UnicodeDecodeError:
        return "changes files that are not text"
    fix = Fix(commit, before, *changes)
    lines = re.findall(r"^[+-](?!\+\+ |-- )", fix.patch, re.MULTILINE)
    if len(lines) > MAX_SOURCE_LINES or len(fix.source) > MAX_SOURCE_FILES:
        return f"changes over {MAX_SOURCE_LINES} lines or {MAX_SOURCE_FILES} files of source"
    return fix if lines else "changes no text of the source"


def _is_source(path: str) -> bool:
    prose = path.endswith(_PROSE) or PurePosixPath(path).parts[0] in ("docs", "doc", ".github")
    return not (prose or is_test_path(path) or is_control_path(path))


def _changes(before: Tree, after: Tree, paths: list[str]) -> Changes:
    """What a commit changes of some files. Raises `UnicodeDecodeError` if one is not text."""
    changes: Changes = {path: after.get(path) for path in paths}
    for content in (*changes.values(), *(before.get(path) for path in paths)):
        (content or b"").decode()
    return {path: new for path, new in changes.items() if new != before.get(path)}
