"""Finds the tests that fail only with a bug, by repeated runs without it and with it.

"Sound" is the package without the bug, "faulty" with it. FAIL_TO_PASS are tests that always passed
on the sound files and always failed on the faulty ones. PASS_TO_PASS always passed on both. A test
with two results on the same files is in neither. A run without results refuses the candidate.

Does not cover: a flaky test whose results agree in all repetitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from meta_agent.domains.swe import Report, Tree
from meta_agent.domains.tasks._bench import Bench, Failure, Probe
from meta_agent.domains.tasks._collection import Measured
from meta_agent.domains.tasks._issue import gives_away, issue_text, same_failures

WHY_CHARS = 200
BAD = frozenset({"FAILED", "ERROR", "MISSING"})
UNIMPORTABLE = "the tests cannot be imported"
NONE_PASSES = "no test passes on the sound source"
NONE_TELLS = "no test tells the fix from the fault"
NONE_REMAINS = "no test passes without the fix too"
_ENDINGS = {
    "timeout": "the tests do not end in time",
    "killed_timeout": "the tests do not end in time",
    "killed_oom": "the tests run out of memory",
    "not_collected": UNIMPORTABLE,
    "forged": "the grader takes what the tests do for a forgery",
}


class Stable(NamedTuple):
    """The tests that always passed, always failed, or varied, over repeated runs."""

    passing: frozenset[str]  # passed every time
    failing: frozenset[str]  # failed every time, or were absent
    flaky: frozenset[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares test results on files without a bug (`sound`) and on files with it (`faulty`)."""

    bench: Bench
    stable: Stable
    sound: Tree
    faulty: Tree
    repeats: int

    def tests(self) -> tuple[Measured, Probe]:
        """Returns the tests that fail by the bug and those that pass, or why the bug makes no task.

        The second value is one of the runs with the bug.
        """
        files = tuple(sorted({test.split("::", 1)[0] for test in self.stable.passing}))
        if not files:
            return {"refused": NONE_PASSES}, Probe()
        probe = self.bench.probe(self.faulty, tests=files)
        if probe.problem:
            return {"refused": without_results(probe.problem), "why": probe.problem}, probe
        reports = [self.bench.suite(self.faulty, files) for _ in range(self.repeats - 1)]
        if lost := first_without_results(reports):
            return {"refused": without_results(lost.verdict), "why": evidence(lost)}, probe
        faulty = by_stability([probe.results, *(report.results for report in reports)])
        passing = self.stable.passing
        measured: Measured = {
            "fail": sorted(passing & faulty.failing),
            "pass": sorted(passing & faulty.passing),
            "flaky": sorted(self.stable.flaky | (passing & faulty.flaky)),
        }
        if not measured["fail"] or not measured["pass"]:
            measured["refused"] = NONE_REMAINS if measured["fail"] else NONE_TELLS
        return measured, probe

    def failures(self, probe: Probe, tests: Sequence[str]) -> dict[str, Failure]:
        """Runs `tests` again with the bug. Returns the failures that are as in `probe`, by id."""
        return same_failures(probe, self.bench.probe(self.faulty, only=tests), tests)

    def issue(
        self, failures: Mapping[str, Failure], fixed_lines: Sequence[str], *, every: bool = False
    ) -> Measured:
        """Returns an `issue` text on one failure (on all, with `every`) or a reason (`refused`)."""
        text = issue_text(self.bench.package, self.sound, failures, every=every)
        if not text:
            return {"refused": "no failing test can be shown"}
        if gives_away(text, fixed_lines):
            return {"refused": "its issue would give the fix away"}
        return {"issue": text}


def by_stability(runs: Sequence[Mapping[str, str]]) -> Stable:
    """Returns which tests always passed, always failed or varied, from the status in each run."""
    tests = {test for run in runs for test in run}
    results = {test: {run.get(test, "MISSING") for run in runs} for test in tests}
    return Stable(
        frozenset(test for test in tests if results[test] == {"PASSED"}),
        frozenset(test for test in tests if results[test] <= BAD),
        frozenset(test for test in tests if len(results[test]) > 1 and not results[test] <= BAD),
    )


def first_without_results(reports: Sequence[Report]) -> Report | None:
    """Returns the first report of a run that did not complete, or None."""
    return next((report for report in reports if report.verdict != "complete"), None)


def without_results(verdict: str) -> str:
    """Returns, for a run's verdict, a sentence on why the run gave no results."""
    return _ENDINGS.get(re.split("[: ]", verdict)[0], "the tests end without results")


def evidence(report: Report) -> str:
    """Returns the last 200 characters of what a test report quotes as evidence, as one line."""
    return " ".join(" ".join(report.evidence).split())[-WHY_CHARS:]
