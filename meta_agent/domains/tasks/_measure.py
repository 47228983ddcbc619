"""One commit of a history, measured: which tests tell the tree with its fix from the one without.

Promises: a commit that comes to nothing says why; where its own tests do not even hold with the fix
(a dependency that is missing or too new, most often), it shows what one of them said.

Does not cover: which commits are worth measuring (`_fixes`) and which make a set (`_mine`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from meta_agent.core.protocols import JSON
from meta_agent.domains.swe import Report, Tree
from meta_agent.domains.swe._patch import overlay
from meta_agent.domains.tasks._bench import Bench, Failure
from meta_agent.domains.tasks._fixes import Fix
from meta_agent.domains.tasks._issue import (
    UNSHOWN,
    Material,
    gives_away,
    issue_text,
    same_failures,
)
from meta_agent.domains.tasks._names import defined_names
from meta_agent.domains.tasks._package import suite_files
from meta_agent.domains.tasks._stable import Stable, together, without_results
from meta_agent.domains.tasks._suite_source import asked_by, plain_name

WHY_CHARS = 200  # of what a run without results said; the count of refusals goes without
_ASKED_WHY = 3  # tests
_NO_NAME = re.compile(r"(?:no attribute|cannot import name|name) '(\w+)'")
_NO_KEYWORD = re.compile(r"\w\(\) got an unexpected keyword argument '(\w+)'")
_NO_PLACE = re.compile(r"(\w+)\(\) takes .*positional arguments? but .* given")


@dataclass(frozen=True)
class Measure:
    """Runs a commit's tests on the tree with the fix, then on the tree without.

    `patterns` are those of test files; `touched`: only the files that the commit touches.
    """

    bench: Bench
    fix: Fix
    repeats: int
    patterns: tuple[str, ...]
    touched: bool

    def measured(self) -> dict[str, JSON]:
        after = overlay(self._before, self.fix.source)
        tests = self._tests(after)
        if not tests:
            return {"refused": "touches no test file of the suite"}
        changed = tuple(self.fix.source)
        fixed = [self.bench.suite(after, tests, changed) for _ in range(self.repeats)]
        if lost := _without_results(fixed):
            return {"refused": f"{without_results(lost.verdict)} with the fix", "why": _told(lost)}
        sound = together([report.results for report in fixed])
        found = self._without_fix(sound)
        if found.get("refused") in _UNDECIDED:
            found |= self._failing_with_fix(after, tests, sound)
        return found

    @property
    def _before(self) -> Tree:
        return overlay(self.bench.package.tree, self.fix.tests)

    def _tests(self, after: Tree) -> tuple[str, ...]:
        """Test files of the tree with the fix: the commit may bring some."""
        found = suite_files(after, self.patterns)
        return tuple(one for one in found if one in self.fix.tests) if self.touched else found

    def _without_fix(self, sound: Stable) -> dict[str, JSON]:
        tests = tuple(sorted({_file(test) for test in sound.passing}))
        if not tests:
            return {"refused": _NONE_PASSES}
        probed = self.bench.probe(self._before, tests=tests)
        if probed.problem.startswith("not_collected"):
            return {"refused": _FEATURE, "why": probed.problem}
        if probed.problem:
            told = without_results(probed.problem)
            return {"refused": f"{told} without the fix", "why": probed.problem}
        again = [self.bench.suite(self._before, tests) for _ in range(self.repeats - 1)]
        if lost := _without_results(again):
            told = without_results(lost.verdict)
            return {"refused": f"{told} without the fix", "why": _told(lost)}
        broken = together([probed.results, *(report.results for report in again)])
        fail, keep = sorted(sound.passing & broken.failing), sorted(sound.passing & broken.passing)
        flaky = sorted(sound.flaky | (sound.passing & broken.flaky))
        if not fail or not keep:
            return {"refused": _NONE_TELLS if not fail else _NONE_KEEPS, "flaky": flaky}
        second = self.bench.probe(self._before, only=fail)
        return {**self._task(fail, keep, same_failures(probed, second, fail)), "flaky": flaky}

    def _task(
        self, fail: list[str], keep: list[str], failures: Mapping[str, Failure]
    ) -> dict[str, JSON]:
        if wanting := sorted({name for test in fail for name in self._wanting(test, failures)}):
            return {"refused": _FEATURE, "why": ", ".join(wanting)}
        package = self.bench.package
        names = defined_names(package.tree[path] for path in package.sources)
        after = overlay(self._before, self.fix.source)
        text = issue_text(self.bench, Material(names, after, self._before, failures)).text
        if not text:
            return {"refused": UNSHOWN}
        if gives_away(text, self.fix.added_lines):
            return {"refused": "its issue would give the fix away"}
        return {"fail": fail, "pass": keep, "issue": text}

    def _wanting(self, test: str, failures: Mapping[str, Failure]) -> frozenset[str]:
        """What a test asks for that only the fix has: by its text, and by what it failed of."""
        path, name = plain_name(test)
        asked = asked_by(self._before[path], name)
        found = asked & self._introduced
        said = failures[test].message if test in failures else ""
        for pattern, known in (
            (_NO_NAME, self._introduced),
            (_NO_KEYWORD, asked),
            (_NO_PLACE, self._redefined),
        ):
            match = pattern.search(said)
            found |= {match[1]} & known if match else frozenset()
        return found

    @cached_property
    def _introduced(self) -> frozenset[str]:
        return self.fix.introduced

    @property
    def _redefined(self) -> frozenset[str]:
        """Functions whose signature the fix writes anew."""
        lines = (re.match(r"\s*(?:async )?def (\w+)", line) for line in self.fix.added_lines)
        return frozenset(line[1] for line in lines if line)

    def _failing_with_fix(
        self, after: Tree, tests: Sequence[str], sound: Stable
    ) -> dict[str, JSON]:
        """Another reason where most of what the commit touches does not hold with the fix."""
        files = [one for one in tests if one in self.fix.tests]
        failing = sorted(test for test in sound.failing if _file(test) in files)
        passing = [test for test in sound.passing if _file(test) in files]
        if not files or len(failing) < len(passing):
            return {}
        asked = failing[:_ASKED_WHY] or None
        probed = self.bench.probe(after, tests=files, only=asked)
        shown = [f"{one.kind}: {one.message}" for _, one in sorted(probed.failures.items())]
        why = " ".join([*shown[:1], probed.problem][0].split())[:WHY_CHARS]
        return {"refused": "its tests fail with the fix too", "why": why}


_NONE_PASSES = "no test passes with the fix"
_NONE_TELLS = "no test tells the fix from the fault"
_NONE_KEEPS = "no test passes without the fix too"
_FEATURE = "its tests call what only the fix has, so it is a feature"
_UNDECIDED = frozenset({_NONE_PASSES, _NONE_TELLS, _NONE_KEEPS})


def _file(test: str) -> str:
    return test.split("::", 1)[0]


def _without_results(reports: Sequence[Report]) -> Report | None:
    return next((one for one in reports if one.verdict != "complete"), None)


def _told(report: Report) -> str:
    return " ".join(" ".join(report.evidence).split())[-WHY_CHARS:]
