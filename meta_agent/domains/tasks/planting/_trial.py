"""One planted fault, measured: which tests notice, whether it could have stayed, how a user tells.

Promises: the deciding tests failed in every run of the faulty source, the others passed in every
one. A fault could have stayed where most of what its function does still holds: few of the tests
that call the function notice, and nothing that the documentation shows changes.

Does not cover: which faults are worth measuring, and which of them make a set (`_synth`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meta_agent.core.protocols import JSON
from meta_agent.domains.tasks._bench import Bench, Probed
from meta_agent.domains.tasks._issue import (
    UNSHOWN,
    Material,
    gives_away,
    issue_text,
    same_failures,
)
from meta_agent.domains.tasks._stable import Results, together, without_results
from meta_agent.domains.tasks._suite_source import UnreachableError, plain_name, without_tests
from meta_agent.domains.tasks.planting._mutations import Mutation
from meta_agent.domains.tasks.planting._sound import Sound

MAX_FAILING_FUNCTIONS = 6
MAX_FAILING_TESTS = 12
LOCAL_FUNCTIONS = 2
MAIN_SHARE = 1 / 2  # of a function's tests that notice: its main use is broken
RARE_SHARE = 1 / 4
# A fault of these would have been met by whoever wrote the line.
_AT_ONCE = re.compile(
    r"^(NameError|UnboundLocalError)\b|missing \d+ required|object is not callable"
)
_BAD = frozenset({"FAILED", "ERROR", "MISSING"})


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault, measured: first by the tests that call the function, then by the whole suite."""

    bench: Bench
    sound: Sound
    mutation: Mutation
    repeats: int

    def measured(self) -> dict[str, JSON]:
        """The deciding tests, the others, the text and whether it is a second choice (`wide`); or
        why it makes no task."""
        path, before = self.mutation.path, self.bench.package.tree[self.mutation.path]
        after = self.mutation.applied(before)
        tree = {**self.bench.package.tree, path: after}
        first = self.bench.probe(tree, only=self._near)
        reason = self._too_much_or_little(first, self._near)
        return {"refused": reason} if reason else self._in_full(tree, first)

    @property
    def _near(self) -> tuple[str, ...]:
        """The tests that call the function."""
        return self.sound.covering[self.mutation.path, self.mutation.def_line]

    def _too_much_or_little(self, probed: Probed, tests: Iterable[str]) -> str:
        if probed.problem:
            return without_results(probed.problem)
        failing = [test for test in tests if probed.results.get(test, "MISSING") in _BAD]
        if not failing:
            return "no test notices"
        functions = {plain_name(test) for test in failing}
        if len(functions) > MAX_FAILING_FUNCTIONS or len(failing) > MAX_FAILING_TESTS:
            return "breaks too much"
        near = set(self._near)
        only_crash = len(near) == 1 and all(_crashed(probed, test) for test in failing)
        if only_crash or len(near.intersection(failing)) > max(1, MAIN_SHARE * len(near)):
            return "breaks the main use of its function"
        if all(_AT_ONCE.search(_said(probed, test)) for test in failing):
            return "would have been met at once"
        try:
            without_tests(self.bench.package.tree, failing)
        except UnreachableError:
            return "its tests cannot be hidden"
        return ""

    def _in_full(self, tree: dict[str, bytes], first: Probed) -> dict[str, JSON]:
        whole = self.bench.probe(tree, tests=self.sound.tests)
        reason = self._too_much_or_little(whole, sorted(self.sound.stable.passing))
        if reason:
            return {"refused": reason}
        codes = list(self.sound.examples)
        if codes and self.bench.said(tree, codes) != list(self.sound.examples.values()):
            return {"refused": "breaks what the documentation shows"}
        runs: list[Results] = [whole.results]
        for _ in range(self.repeats - 1):
            report = self.bench.suite(tree, self.sound.tests)
            if report.verdict != "complete":
                return {"refused": without_results(report.verdict)}
            runs.append(report.results)
        again = together(runs)
        failing = sorted(self.sound.stable.passing & again.failing)
        passing = sorted(self.sound.stable.passing & again.passing)
        failing = [test for test in failing if first.results.get(test, "FAILED") in _BAD]
        if not failing or not passing:
            return {"refused": "no stable deciding tests"}
        return self._told(tree, failing, passing, (first, whole))

    def _told(
        self,
        faulty: dict[str, bytes],
        failing: list[str],
        passing: list[str],
        probed: tuple[Probed, Probed],
    ) -> dict[str, JSON]:
        package = self.bench.package
        kept = set(passing)
        near = {test: probed[0].given.get(test, {}) for test in self._near if test in kept}
        material = Material(
            self.sound.names, package.tree, faulty, same_failures(*probed, failing), near
        )
        told = issue_text(self.bench, material)
        if not told.text:
            return {"refused": UNSHOWN}
        if gives_away(told.text, fixed_lines(package.tree[self.mutation.path], self.mutation)):
            return {"refused": "its issue would give the fix away"}
        wide = not told.plain or not self._is_rare(failing, told.compared)
        return {"fail": failing, "pass": passing, "issue": told.text, "wide": wide}

    def _is_rare(self, failing: Sequence[str], compared: bool) -> bool:
        noticing = len(set(failing).intersection(self._near))
        few = len({plain_name(test) for test in failing}) <= LOCAL_FUNCTIONS
        return (
            few
            and noticing <= max(1, RARE_SHARE * len(self._near))
            and (compared or len(self._near) > 1)
        )


def _crashed(probed: Probed, test: str) -> bool:
    return not _said(probed, test).startswith(("AssertionError", "Failed"))


def _said(probed: Probed, test: str) -> str:
    failure = probed.failures.get(test)
    return f"{failure.kind} {failure.message}" if failure else ""


def fixed_lines(source: bytes, mutation: Mutation) -> list[str]:
    """The sound lines that the fix puts back."""
    start = source.rfind(b"\n", 0, mutation.start) + 1
    end = source.find(b"\n", max(mutation.end - 1, mutation.start))
    return source[start : end if end >= 0 else None].decode("utf-8", "replace").split("\n")
