"""Plants faults in a package, by rule, and keeps those that its own tests catch.

Promises: what `_measure` promises of the tests. A fault is refused if it breaks the main use of its
function or too many tests, or if whoever wrote it would have noticed at once. The tasks depend on
the package, the seed and the settings, not on speed or on `jobs`. An interrupted search continues
where it ended.

Does not cover: faults that the package's tests do not notice.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.domains.swe import make_patch
from meta_agent.domains.tasks._bench import Bench, Probe
from meta_agent.domains.tasks._collection import (
    EXHAUSTED,
    Draft,
    Made,
    Measured,
    Plan,
    Progress,
    Search,
)
from meta_agent.domains.tasks._faults import Fault, faults
from meta_agent.domains.tasks._journal import ahead
from meta_agent.domains.tasks._measure import (
    BAD,
    Comparison,
    Stable,
    by_stability,
    evidence,
    without_results,
)
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._source import (
    UnreachableError,
    is_edit,
    leaves_unused,
    plain_name,
    without_tests,
)

MAX_FAILING_FUNCTIONS = 6
MAX_FAILING_TESTS = 12
MAIN_SHARE = 1 / 2  # of a function's tests: if more notice, its main use is broken
PER_FUNCTION = 2
TRIES_PER_TASK = 12
# Whoever wrote the line would have met such a fault.
_AT_ONCE = re.compile(
    r"^(NameError|UnboundLocalError)\b|missing \d+ required|object is not callable"
)


class Sound(NamedTuple):
    """Test results of the package without a bug: stable tests, and tests by function called."""

    stable: Stable
    callers: Mapping[tuple[str, int], tuple[str, ...]]  # by path and line of the function


def synthesize(bench: Bench, out: Path, plan: Plan, progress: Progress) -> Made:
    """Plants bugs in a package, and writes tasks to `out`.

    Raises `ConfigError` if the suite gives no results, or if no bug makes a task.
    """
    search = Search(bench, out, plan, progress)
    package = search.bench.package
    sound = _read_sound(search)
    progress(f"{len(sound.stable.passing)} stable tests call {len(sound.callers)} functions")
    search.hint = "does the suite test behaviour? --tests and --sources choose other files"
    search.flaky |= sound.stable.flaky
    _Planting(search, sound).plant()
    return search.write(
        {
            **{"by": "synth", "package": f"{package.name} {package.version}".strip()},
            **{"seed": plan.seed, "wanted": plan.count},
        }
    )


def _read_sound(search: Search) -> Sound:
    """Runs the tests repeatedly on the unchanged package, and once more with calls traced."""
    bench, journal = search.bench, search.journal

    def suite() -> JSON:
        report = bench.suite(bench.package.tree)
        if report.verdict != "complete":
            why = f"{without_results(report.verdict)}: {evidence(report)}"
            raise ConfigError(
                f"the tests give no results even on the unchanged source: {why}",
                hint="put what the tests need in an image: meta-agent sandbox build --requirements "
                "FILE --tag TAG, then --image TAG (and --plugin NAME for a plugin of pytest)",
            )
        return dict(report.results)

    def traced() -> JSON:
        files = tuple(sorted({test.split("::", 1)[0] for run in runs for test in run}))
        probe = bench.probe(bench.package.tree, trace=bench.package.sources, tests=files)
        if probe.problem:
            raise ConfigError(
                f"the tests give no results while they are traced: {probe.problem}",
                hint="leave out the test files that do not run: --tests PATTERN",
            )
        return [dict(probe.results), {test: sorted(calls) for test, calls in probe.calls.items()}]

    runs = [journal.once(f"sound {number}", suite) for number in range(search.plan.repeats)]
    results, calls = journal.once("traced", traced)
    stable = by_stability([*runs, results])
    callers: dict[tuple[str, int], tuple[str, ...]] = {}
    for test in sorted(stable.passing):
        for path, line in calls.get(test, ()):
            callers[path, line] = (*callers.get((path, line), ()), test)
    return Sound(stable, callers)


@dataclass(frozen=True, slots=True)
class _Planting:
    """Plants faults and measures them until there are enough tasks."""

    search: Search
    sound: Sound

    @property
    def _package(self) -> Package:
        return self.search.bench.package

    @property
    def _enough(self) -> bool:
        search = self.search
        return search.full or search.tried >= search.plan.count * TRIES_PER_TASK

    def plant(self) -> None:
        """Plants faults by rule. At most `PER_FUNCTION` faults in one function become tasks."""
        accepted: Counter[str] = Counter()

        def useful() -> Iterator[Fault]:
            for fault in self._planted():
                before = self._package.tree[fault.path]
                after = fault.applied(before)
                is_plausible = is_edit(before, after) and not leaves_unused(before, after)
                if accepted[fault.topic] < PER_FUNCTION and is_plausible:
                    yield fault

        for fault, measured in ahead(self.search.plan.jobs, useful(), self._measured):
            if accepted[fault.topic] < PER_FUNCTION:
                accepted[fault.topic] += self._decide(fault, measured)
            if self._enough:
                return
        self.search.advice = EXHAUSTED

    def _planted(self) -> list[Fault]:
        """Returns the rules' edits of functions that stable tests call, in the seed's order."""
        tree = self._package.tree
        copies = Counter(tree.values())
        planted = [
            fault
            for path in self._package.sources
            if copies[tree[path]] == 1
            for fault in faults(path, tree[path])
            if (path, fault.def_line) in self.sound.callers
        ]
        seed = self.search.plan.seed
        return sorted(planted, key=lambda f: hashlib.sha256(f"{seed}\0{f.key}".encode()).digest())

    def _measured(self, fault: Fault) -> Measured:
        measured: Measured = self.search.journal.once(fault.key, lambda: self._trial(fault))
        return measured

    def _decide(self, fault: Fault, measured: Measured) -> bool:
        def draft() -> Draft:
            sound = self._package.tree
            faulty = fault.applied(sound[fault.path])
            hidden = without_tests(sound, measured["fail"])
            origin: dict[str, JSON] = {
                **{"by": "synth", "operator": fault.rule, "path": fault.path},
                **{"function": fault.function, "seed": self.search.plan.seed},
            }
            return Draft(
                self.search.bench,
                fault.topic,
                make_patch({fault.path: faulty}, {fault.path: sound[fault.path]}),
                make_patch(hidden, {path: sound[path] for path in hidden}),
                make_patch(sound, {**hidden, fault.path: faulty}),
                origin,
            )

        return self.search.decide(f"{fault.path} {fault.function} {fault.rule}", measured, draft)

    def _trial(self, fault: Fault) -> Measured:
        """Runs the tests that call the fault's function, then the whole suite.

        Returns the deciding tests, the others and the text; or why the fault makes no task.
        """
        bench, before, path = self.search.bench, self._package.tree, fault.path
        tree = {**before, path: fault.applied(before[path])}
        callers = self.sound.callers[path, fault.def_line]
        if reason := self._unfit(bench.probe(tree, only=callers), callers, callers):
            return {"refused": reason}
        comparison = Comparison(bench, self.sound.stable, before, tree, self.search.plan.repeats)
        measured, whole = comparison.tests()
        if "refused" in measured:
            return measured
        fail, fixed = measured["fail"], fault.fixed_lines(before[path])
        if reason := self._unfit(whole, fail, callers):
            return {"refused": reason}
        return measured | comparison.issue(comparison.failures(whole, fail), fixed)

    def _unfit(self, probe: Probe, tests: Sequence[str], callers: Sequence[str]) -> str:
        """Returns why a fault is too plain or cannot make a task; empty if it can."""
        if probe.problem:
            return without_results(probe.problem)
        failing = [test for test in tests if probe.results.get(test, "MISSING") in BAD]
        if not failing:
            return "no test notices"
        functions = {plain_name(test) for test in failing}
        if len(functions) > MAX_FAILING_FUNCTIONS or len(failing) > MAX_FAILING_TESTS:
            return "breaks too much"
        if len(set(callers).intersection(failing)) > max(1, MAIN_SHARE * len(callers)):
            return "breaks the main use of its function"
        failures = [probe.failures.get(test) for test in failing]
        errors = [f"{failure.kind} {failure.message}" if failure else "" for failure in failures]
        if all(map(_AT_ONCE.search, errors)):
            return "would have been met at once"
        try:
            without_tests(self._package.tree, failing)
        except UnreachableError:
            return "its tests cannot be hidden"
        return ""
