"""Plants faults in a package, by rule or by a model, and keeps those that its own tests catch.

Promises: what `_measure` promises of the tests. A fault is refused if it breaks the main use of its
function, too many tests, or something that would be met at once. Which tasks come out depends on
the package, the seed and the settings, not on speed or on `jobs`. An interrupted search goes on
where it was, and a model is asked nothing twice.

Does not cover: faults that the package's tests do not notice.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from meta_agent.core.errors import BudgetError, ConfigError
from meta_agent.core.protocols import JSON, Message
from meta_agent.domains.swe import make_patch
from meta_agent.domains.tasks._author import (
    TURNS,
    Author,
    FunctionUnderTest,
    Reply,
    places,
    read_reply,
)
from meta_agent.domains.tasks._bench import Bench, Failure, Probe
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
from meta_agent.domains.tasks._issue import problem_of
from meta_agent.domains.tasks._journal import Journal, ahead
from meta_agent.domains.tasks._measure import (
    BAD,
    Comparison,
    Stable,
    evidence,
    together,
    without_results,
)
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
_NO_MONEY = "the cap on what is spent was met"
_BACK = "That makes no exercise: {why}\nAnswer anew, whole, in the same form; or decline."
# Whoever wrote the line would have met such a fault.
_AT_ONCE = re.compile(
    r"^(NameError|UnboundLocalError)\b|missing \d+ required|object is not callable"
)


class Sound(NamedTuple):
    """The package without a fault: its stable tests, and which of them call which function."""

    stable: Stable
    callers: Mapping[tuple[str, int], tuple[str, ...]]  # by path and line of the function


def synthesize(
    bench: Bench, out: Path, plan: Plan, progress: Progress, author: Author | None = None
) -> Made:
    """Writes a task file, its archive and its manifest. Without an `author` rules plant faults.

    Raises `ConfigError` if the suite gives no results, or if no fault makes a task.
    """
    search = Search.opened(bench, out, plan, progress)
    package = search.bench.package
    sound = _read_sound(search.bench, plan.repeats, search.journal)
    progress(f"{len(sound.stable.passing)} stable tests call {len(sound.callers)} functions")
    hint = "does the suite test behaviour? --tests and --sources choose other files"
    search.collection.hint = hint
    search.collection.flaky |= sound.stable.flaky
    planting = _Planting(search, sound)
    planting.plant() if author is None else planting.ask(author)
    method: dict[str, JSON] = {
        **{"by": "synth", "package": f"{package.name} {package.version}".strip()},
        **{"seed": plan.seed, "wanted": plan.count},
        **({"author": author.model} if author else {}),
    }
    return search.written(method)


def _read_sound(bench: Bench, repeats: int, journal: Journal) -> Sound:
    """Runs the sound tree repeatedly, and once more with its calls traced."""

    def suite() -> JSON:
        report = bench.suite(bench.package.tree)
        if report.verdict != "complete":
            why = f"{without_results(report.verdict)}: {evidence(report)}"
            raise ConfigError(
                f"there are no results on the sound source: {why}",
                hint="dependencies and pytest's plugins come from an image: meta-agent sandbox "
                "image; then --image TAG and --plugin NAME",
            )
        return dict(report.results)

    def traced() -> JSON:
        files = tuple(sorted({test.split("::", 1)[0] for run in runs for test in run}))
        probe = bench.probe(bench.package.tree, trace=bench.package.sources, tests=files)
        if probe.problem:
            raise ConfigError(
                f"the tests give no results while traced: {probe.problem}",
                hint="--tests PATTERN leaves out the test files that do not run",
            )
        return [dict(probe.results), {test: sorted(calls) for test, calls in probe.calls.items()}]

    runs = [journal.once(f"sound {number}", suite) for number in range(repeats)]
    results, calls = journal.once("traced", traced)
    stable = together([*runs, results])
    callers: dict[tuple[str, int], tuple[str, ...]] = {}
    for test in sorted(stable.passing):
        for path, line in calls.get(test, ()):
            callers[path, line] = (*callers.get((path, line), ()), test)
    return Sound(stable, callers)


@dataclass(frozen=True, slots=True)
class _Planting:
    """Measures faults in order until there are enough tasks."""

    search: Search
    sound: Sound

    @property
    def _enough(self) -> bool:
        collection, count = self.search.collection, self.search.plan.count
        return collection.full or collection.tried >= count * TRIES_PER_TASK

    def plant(self) -> None:
        """Takes faults of the rules, few of one function."""
        accepted: Counter[str] = Counter()

        def useful() -> Iterator[Fault]:
            for fault in self._planted():
                if accepted[fault.topic] < PER_FUNCTION and self._is_plausible(fault):
                    yield fault

        for fault, measured in ahead(self.search.plan.jobs, useful(), self._measured):
            if accepted[fault.topic] < PER_FUNCTION:
                accepted[fault.topic] += self._decide(fault, measured)
            if self._enough:
                return
        self.search.collection.advice = EXHAUSTED

    def ask(self, author: Author) -> None:
        """Takes faults of a model, which is asked about one function after the other."""

        def authored(place: FunctionUnderTest) -> tuple[Fault | None, Measured]:
            return self._authored(author, place)

        candidates = iter(
            places(self.search.bench.package, self.sound.callers, self.search.plan.seed)
        )
        for place, (fault, measured) in ahead(self.search.plan.jobs, candidates, authored):
            if fault is None:
                self.search.collection.tried += 1
                self.search.collection.refuse(
                    place.topic, measured["refused"], measured.get("why", "")
                )
            else:
                self._decide(fault, measured)
            if self._enough or measured.get("refused") == _NO_MONEY:
                return
        self.search.collection.advice = EXHAUSTED

    def _planted(self) -> list[Fault]:
        """Returns the edits of functions that stable tests call, as the seed orders them."""
        tree = self.search.bench.package.tree
        copies = Counter(tree.values())
        planted = [
            fault
            for path in self.search.bench.package.sources
            if copies[tree[path]] == 1
            for fault in faults(path, tree[path])
            if (path, fault.def_line) in self.sound.callers
        ]
        seed = self.search.plan.seed
        return sorted(planted, key=lambda f: hashlib.sha256(f"{seed}\0{f.key}".encode()).digest())

    def _is_plausible(self, fault: Fault) -> bool:
        """Returns whether a person could have written the faulty file, by its text alone."""
        before = self.search.bench.package.tree[fault.path]
        after = fault.applied(before)
        return is_edit(before, after) and not leaves_unused(before, after)

    def _measured(self, fault: Fault, report: str = "") -> Measured:
        if refused := self._unbelieved(fault.path):
            return refused
        trial = FaultTrial(self.search.bench, self.sound, fault, self.search.plan.repeats, report)
        key = f"{fault.key}\0{report}" if report else fault.key
        measured: Measured = self.search.journal.once(key, trial.measured)
        return measured

    def _unbelieved(self, path: str) -> Measured:
        """Says why the grader does not believe the sound file as a patch: it reads tests, say."""

        def verdict() -> str:
            return self.search.bench.suite(self.search.bench.package.tree, changed=(path,)).verdict

        graded = self.search.journal.once(f"sound as a patch: {path}", verdict)
        if graded == "complete":
            return {}
        return {"refused": f"the grader does not believe its fix: {graded}"}

    def _authored(self, author: Author, place: FunctionUnderTest) -> tuple[Fault | None, Measured]:
        if refused := self._unbelieved(place.path):
            return None, refused
        source = self.search.bench.package.tree[place.path]
        messages = author.opening(
            self.search.bench.package, place, self.sound.callers, self.search.plan.seed
        )
        for turn in range(TURNS):
            try:
                message = author.ask(messages, place, turn)
            except BudgetError:
                return None, {"refused": _NO_MONEY}
            reply = read_reply(str(message["content"]), source, place)
            if reply.declined:
                return None, {"refused": "the author declined", "why": reply.problem}
            measured = self._judged(reply)
            if "refused" not in measured:
                break
            messages += _answered(message, measured)
        return reply.edit, measured

    def _judged(self, reply: Reply) -> Measured:
        if reply.edit is None:
            return {"refused": "an answer that cannot be read", "why": reply.problem}
        before = self.search.bench.package.tree[reply.edit.path]
        after = reply.edit.applied(before)
        if not is_edit(before, after):
            return {"refused": "an edit that does not parse, or changes nothing"}
        if leaves_unused(before, after):
            why = "a name, an import or an argument is used no more"
            return {"refused": "leaves something unused", "why": why}
        return self._measured(reply.edit, reply.report)

    def _decide(self, fault: Fault, measured: Measured) -> bool:
        def draft() -> Draft:
            sound = self.search.bench.package.tree
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

        label = f"{fault.path} {fault.function} {fault.rule}"
        return self.search.collection.decide(label, measured, draft)


@dataclass(frozen=True, slots=True)
class FaultTrial:
    """One fault, measured: first by the tests that call its function, then by the whole suite."""

    bench: Bench
    sound: Sound
    fault: Fault
    repeats: int
    report: str = ""  # an author's, in place of a text of ours

    def measured(self) -> Measured:
        """Returns the deciding tests, the others and the text; or why the fault makes no task."""
        before = self.bench.package.tree
        path = self.fault.path
        tree = {**before, path: self.fault.applied(before[path])}
        probe = self.bench.probe(tree, only=self._callers)
        if reason := self._unfit(probe, self._callers):
            return {"refused": reason}
        comparison = Comparison(self.bench, self.sound.stable, before, tree, self.repeats)
        measured, whole = comparison.tests()
        if "refused" in measured:
            return measured
        if reason := self._unfit(whole, measured["fail"]):
            return {"refused": reason}
        fixed = self.fault.fixed_lines(before[path])
        if not self.report:
            failures = comparison.failures(whole, measured["fail"])
            return measured | comparison.issue(failures, fixed)
        trees, fail = (before, tree), measured["fail"]
        if problem := problem_of(
            self.bench, trees, self.report, tests=fail, fixed=fixed, path=path
        ):
            return measured | {"refused": "its report does not hold", "why": problem}
        return measured | {"issue": self.report}

    @property
    def _callers(self) -> tuple[str, ...]:
        return self.sound.callers[self.fault.path, self.fault.def_line]

    def _unfit(self, probe: Probe, tests: Iterable[str]) -> str:
        """Says why nobody would have left such a fault; empty if somebody could."""
        if probe.problem:
            return without_results(probe.problem)
        failing = [test for test in tests if probe.results.get(test, "MISSING") in BAD]
        functions = {plain_name(test) for test in failing}
        if not failing:
            return "no test notices"
        if len(functions) > MAX_FAILING_FUNCTIONS or len(failing) > MAX_FAILING_TESTS:
            return "breaks too much"
        noticing = set(self._callers).intersection(failing)
        if len(noticing) > max(1, MAIN_SHARE * len(self._callers)):
            return "breaks the main use of its function"
        errors = [_error(probe.failures.get(test)) for test in failing]
        if all(_AT_ONCE.search(error) for error in errors):
            return "would have been met at once"
        try:
            without_tests(self.bench.package.tree, failing)
        except UnreachableError:
            return "its tests cannot be hidden"
        return ""


def _error(failure: Failure | None) -> str:
    return f"{failure.kind} {failure.message}" if failure else ""


def _answered(message: Message, measured: Measured) -> list[Message]:
    why = f"{measured['refused']}. {measured.get('why', '')}".strip()
    return [message, {"role": "user", "content": _BACK.format(why=why)}]
