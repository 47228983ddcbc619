"""Turns the bug-fix commits of a repository into tasks.

The tree of a task is the parent commit's, as plain files: no history, no refs. The commit's changes
to tests are `test_patch`, its changes to source the gold patch. The agent never sees its message:
the issue text says what the tests show on the unfixed tree.

Promises: what `_measure` promises of the tests. The same repository gives the same rows. Commits
that make no task are counted with the reason.

Does not cover: merges, fixes without a test, and old commits whose dependencies the image lacks. A
commit whose tests call what only the fix has (such as a new function) is refused as a feature.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.history import ForeignHistory, PastCommit, foreign_history
from meta_agent.domains.formats import semantic_key
from meta_agent.domains.swe import Tree, is_test_path, make_patch
from meta_agent.domains.swe._patch import overlay
from meta_agent.domains.swe.grading._sift import is_control_path
from meta_agent.domains.tasks._bench import Bench, Failure
from meta_agent.domains.tasks._collection import (
    EXHAUSTED,
    Draft,
    Made,
    Measured,
    Plan,
    Progress,
    Search,
)
from meta_agent.domains.tasks._journal import ahead
from meta_agent.domains.tasks._measure import (
    NONE_PASSES,
    NONE_REMAINS,
    NONE_TELLS,
    UNIMPORTABLE,
    WHY_CHARS,
    Comparison,
    Stable,
    by_stability,
    evidence,
    first_without_results,
    without_results,
)
from meta_agent.domains.tasks._package import suite_files

MAX_SOURCE_LINES: Final = 200
MAX_SOURCE_FILES: Final = 8
_MANY: Final = 3  # failing tests that are asked for their reason
_FEATURE: Final = "its tests call what only the fix has, so it is a feature"
_FAIL_FIXED: Final = "its tests fail with the fix too"
_LACKS: Final = re.compile(
    r"(?:no attribute|cannot import name|name) '(\w+)'|unexpected keyword argument '(\w+)'"
)
_TOO_MANY: Final = re.compile(r"(\w+)\(\) takes .*positional arguments? but .* given")
_FIX: Final = re.compile(
    r"\b(fix(es|ed|ing)?|bug(s|fix)?|regress\w*|correct(s|ed|ly)?|wrong\w*|crash\w*|fail\w*|"
    r"broken|breaks?|incorrect\w*|handle[sd]?|repair\w*|resolve[sd]?|prevent(s|ed)?|security|"
    r"vulnerab\w*)\b",
    re.IGNORECASE,
)
# Read in the whole message. A pull request's number at the end of a title says nothing.
_CLOSES: Final = re.compile(
    r"\b((fix|close|resolve)[sd]?|fixes|fixed):? +(\w+/\w+)?#\d+|\b(cve-\d+-\d+|ghsa(-\w{4}){3})\b",
    re.IGNORECASE,
)
_PROSE: Final = (
    *(".md", ".rst", ".txt", ".cfg", ".toml", ".yml", ".yaml", ".ini", ".in", ".lock"),
)
Changes = dict[str, bytes | None]


@dataclass(frozen=True)
class Fix:
    """A commit that may fix a bug: its changes to source and to tests, and the files before it."""

    commit: PastCommit
    before: Tree
    source: Changes
    tests: Changes

    @property
    def patch(self) -> str:
        return make_patch(self.before, self.source)

    @property
    def added_lines(self) -> list[str]:
        """Returns the lines that the fix adds."""
        return [line[1:] for line in self.patch.split("\n") if re.match(r"\+(?!\+\+ )", line)]


def mine(repository: Path, bench: Bench, out: Path, plan: Plan, progress: Progress) -> Made:
    """Makes tasks of a repository's bug-fix commits. Writes a task file with archives to `out`.

    `bench` has the package of the newest commit. Raises `ConfigError` if no commit makes a task.
    """
    with foreign_history(repository, deep=True) as history:
        search = Search(bench, out, plan, progress)
        if not plan.any_message:
            search.hint = "--any-message also tries commits that name no fix"
        if (repository / ".git" / "shallow").is_file():
            search.hint = "the clone is shallow; git fetch --unshallow brings older fixes"
            progress(search.hint)
        _measure_commits(search, read_fixes(history, any_message=plan.any_message))
    package = bench.package
    return search.write({"by": "mine", "package": package.name, "head": package.commit})


def _measure_commits(search: Search, fixes: Iterator[Fix | str]) -> None:
    """Measures commits in the order of the history until there are enough tasks."""

    def candidates() -> Iterator[Fix]:
        for fix in fixes:
            if isinstance(fix, Fix):
                yield fix
            else:
                search.refused[fix] += 1

    def measured(fix: Fix) -> Measured:
        def measure() -> Measured:
            try:
                return _Trial(_bench_of(search.bench, fix), fix, search.plan).measured()
            except ConfigError as problem:  # the old tree has no tests, or no package
                return {"refused": str(problem).split(":")[0]}

        measurement: Measured = search.journal.once(fix.commit.id, measure)
        return measurement

    for fix, measurement in ahead(search.plan.jobs, candidates(), measured):
        commit = fix.commit

        def draft(fix: Fix = fix, measurement: Measured = measurement) -> Draft:
            bench, patch = _bench_of(search.bench, fix), fix.patch
            key = semantic_key(bench.package.name, patch, measurement["issue"])
            origin = {"by": "mine", "commit": fix.commit.id, "subject": fix.commit.subject}
            return Draft(bench, key, patch, make_patch(fix.before, fix.tests), "", origin)

        search.decide(f"{commit.id[:12]} {commit.subject[:60]}", measurement, draft)
        if search.full:
            return
    search.advice = EXHAUSTED


def _bench_of(bench: Bench, fix: Fix) -> Bench:
    """Returns a bench with the parent commit's files. Many commits share a version: it has none."""
    package = bench.package.at(fix.before, fix.commit.parent)
    package = dataclasses.replace(package, name=bench.package.name, version="")
    return dataclasses.replace(bench, package=package)


@dataclass(frozen=True)
class _Trial:
    """Runs a commit's tests on the files with the fix, then on the files without it."""

    bench: Bench
    fix: Fix
    plan: Plan

    def measured(self) -> Measured:
        before = overlay(self.bench.package.tree, self.fix.tests)
        after = overlay(before, self.fix.source)
        files = suite_files(after, self.bench.package.patterns[0])  # the commit may bring some
        if not files:
            return {"refused": "touches no test file of the suite"}
        changed = tuple(self.fix.source)
        reports = [self.bench.suite(after, files, changed) for _ in range(self.plan.repeats)]
        if lost := first_without_results(reports):
            names_files_only = set(lost.evidence) <= set(files)
            why = (self._reason(after, files) if names_files_only else "") or evidence(lost)
            return {"refused": f"{without_results(lost.verdict)} with the fix", "why": why}
        stable = by_stability([report.results for report in reports])
        measured = self._compared(Comparison(self.bench, stable, after, before, self.plan.repeats))
        if measured.get("refused") in (NONE_PASSES, NONE_TELLS, NONE_REMAINS):
            measured |= self._failing_with_fix(after, files, stable)
        return measured

    def _compared(self, comparison: Comparison) -> Measured:
        measured, probe = comparison.tests()
        if measured.get("refused") == UNIMPORTABLE:
            return measured | {"refused": _FEATURE}
        if "refused" in measured:
            return measured
        failures = comparison.failures(probe, measured["fail"])
        if names := self._only_in_fix(failures):
            return measured | {"refused": _FEATURE, "why": ", ".join(sorted(names))}
        return measured | comparison.issue(failures, self.fix.added_lines, every=True)

    def _only_in_fix(self, failures: Mapping[str, Failure]) -> set[str]:
        """Returns the names in failures that the fix adds, or whose signature it changes."""
        before = b"\n".join(text for path, text in self.fix.before.items() if path.endswith(".py"))
        old = set(re.findall(r"\w+", before.decode("utf-8", "replace")))
        added = "\n".join(self.fix.added_lines)
        new = set(re.findall(r"\w+", added)) - old
        redefined = set(re.findall(r"\bdef (\w+)", added))
        messages = "\n".join(failure.message for failure in failures.values())
        names = {name for match in _LACKS.findall(messages) for name in match if name in new}
        return names | redefined.intersection(_TOO_MANY.findall(messages))

    def _failing_with_fix(self, after: Tree, files: Sequence[str], stable: Stable) -> Measured:
        """Returns a refusal if most tests that the commit touches fail with the fix too."""
        touched = [path for path in files if path in self.fix.tests]
        failing = sorted(test for test in stable.failing if test.split("::")[0] in touched)
        passing = [test for test in stable.passing if test.split("::")[0] in touched]
        if not touched or len(failing) < len(passing):
            return {}
        return {"refused": _FAIL_FIXED, "why": self._reason(after, touched, failing[:_MANY])}

    def _reason(self, tree: Tree, files: Sequence[str], only: Sequence[str] = ()) -> str:
        """Runs tests on a tree and returns the first reason why they fail or do not run."""
        probe = self.bench.probe(tree, tests=files, only=only or None)
        reasons = sorted(
            f"{failure.kind}: {failure.message}" for failure in probe.failures.values()
        )
        return " ".join([*reasons[:1], probe.problem][0].split())[:WHY_CHARS]


# --- which commits are fixes -------------------------------------------------------------------


def read_fixes(history: ForeignHistory, *, any_message: bool) -> Iterator[Fix | str]:
    """Yields each commit, newest first, as a likely bug fix or as the reason why it is not one.

    With `any_message` a commit's message need not speak of a fix. No code is run.
    """
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
        fix = Fix(commit, before, _changes(before, after, source), _changes(before, after, tests))
    except UnicodeDecodeError:
        return "changes files that are not text"
    lines = re.findall(r"^[+-](?!\+\+ |-- )", fix.patch, re.MULTILINE)
    if len(lines) > MAX_SOURCE_LINES or len(fix.source) > MAX_SOURCE_FILES:
        return f"changes over {MAX_SOURCE_LINES} lines or {MAX_SOURCE_FILES} files of source"
    return fix if lines else "changes no text of the source"


def _is_source(path: str) -> bool:
    prose = path.endswith(_PROSE) or PurePosixPath(path).parts[0] in ("docs", "doc", ".github")
    return not (prose or is_test_path(path) or is_control_path(path))


def _changes(before: Tree, after: Tree, paths: list[str]) -> Changes:
    """Returns what a commit changes of some files. Raises `UnicodeDecodeError` if not text."""
    changes: Changes = {path: after.get(path) for path in paths}
    for content in (*changes.values(), *(before.get(path) for path in paths)):
        (content or b"").decode()
    return {path: new for path, new in changes.items() if new != before.get(path)}
