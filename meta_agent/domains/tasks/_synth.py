"""Plants faults in a package and keeps those that its own tests catch.

Promises: what is written was measured in fresh sandboxes: the deciding tests passed every time on
the sound source and failed every time on the faulty one, the others passed every time on both;
tests that disagreed with themselves decide nothing, nor do those that race threads of their own by
a sleep or a connection, which on a busy machine fail once in some hundred runs. Which tasks come
out depends on the package, the seed and the settings, not on speed or on how many sandboxes run
side by side. A search that was interrupted goes on where it was.

A likely fault is one that could have stayed: most of what its function does still holds. So faults
that few tests notice are taken first, those that break more only where no others are left, and none
that all tests of its function notice.

Does not cover: faults that the package's tests do not notice.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from meta_agent.domains.formats import semantic_key
from meta_agent.domains.swe import Report, make_patch
from meta_agent.domains.tasks._bench import Bench, Failure, Probed
from meta_agent.domains.tasks._issue import UNSHOWN, gives_away, issue_text, scrubbed
from meta_agent.domains.tasks._journal import Journal, ahead
from meta_agent.domains.tasks._made import Made, Progress
from meta_agent.domains.tasks._mutations import Mutation, changes_tree, mutations
from meta_agent.domains.tasks._names import defined_names
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._quota import Quota
from meta_agent.domains.tasks._rows import Row, archive_folder, task_row, write_set
from meta_agent.domains.tasks._stable import Results, Stable, repeated, together, without_results
from meta_agent.domains.tasks._suite_source import UnreachableError, plain_name, without_tests
from meta_agent.errors import ConfigError
from meta_agent.protocols import JSON

_WHY_CHARS = 300
MAX_FAILING_FUNCTIONS = 6
MAX_FAILING_TESTS = 12
LOCAL_FUNCTIONS = 2
# A fault of these would have been met by whoever wrote the line.
_AT_ONCE = re.compile(
    r"^(NameError|UnboundLocalError)\b|missing \d+ required|object is not callable"
)

_BAD = frozenset({"FAILED", "ERROR", "MISSING"})


@dataclass(frozen=True, slots=True)
class SynthPlan:
    """What to make. `tries_per_task` bounds the search where a package gives little."""

    count: int = 40
    seed: int = 0
    repeats: int = 2
    jobs: int = 1
    tries_per_task: int = 12

    def __post_init__(self) -> None:
        if min(self.count, self.jobs, self.tries_per_task) < 1 or self.repeats < 2:
            raise ConfigError("count and jobs: 1 or more; repeats: 2 or more, or nothing is stable")


@dataclass(frozen=True, slots=True)
class Sound:
    """The package without a fault: what its tests say, and which function each one calls."""

    stable: Stable
    covering: Mapping[tuple[str, int], tuple[str, ...]]
    names: frozenset[str]
    tests: tuple[str, ...]
    waiting: frozenset[str] = frozenset()


def synthesize(bench: Bench, out: Path, plan: SynthPlan, progress: Progress) -> Made:
    """Writes a task file, its archive and its manifest."""
    out.parent.mkdir(parents=True, exist_ok=True)
    bench.check()
    settings: dict[str, JSON] = {
        "package": bench.package.sha256,
        "tests": list(bench.package.tests),
        "sources": list(bench.package.sources),
        "repeats": plan.repeats,
        "image": bench.image,
        "plugins": list(bench.plugins),
    }
    journal = Journal(out, settings)
    if journal.taken_up:
        progress(f"taking up {journal.taken_up} measurements of an interrupted search")
    sound = read_sound(bench, plan.repeats, journal)
    progress(_about(sound))
    search = _Search(bench, sound, plan, journal, progress)
    search.run(candidates(bench.package, sound, plan.seed))
    made = search.written(out)
    journal.close()
    return made


def read_sound(bench: Bench, repeats: int, journal: Journal) -> Sound:
    """Measures the sound source: repeatedly by the grader's runner, once by the telling one."""

    def suite() -> JSON:
        report = bench.suite(bench.package.tree)
        told = "" if report.verdict == "complete" else _why(report)
        return [told, dict(report.results)]

    number = iter(range(repeats))
    runs = repeated(lambda: tuple(journal.once(f"sound {next(number)}", suite)), repeats)
    tests = tuple(sorted({test.split("::", 1)[0] for run in runs for test in run}))
    traced = journal.once("traced", lambda: _traced(bench, tests))
    waiting = frozenset(traced["waiting"])
    stable = together([*runs, traced["results"]]).without(waiting)
    covering: dict[tuple[str, int], list[str]] = {}
    for test, calls in sorted(traced["calls"].items()):
        for path, line in calls if test in stable.passing else ():
            covering.setdefault((path, line), []).append(test)
    return Sound(
        stable,
        {place: tuple(found) for place, found in covering.items()},
        defined_names(bench.package.tree[path] for path in bench.package.sources),
        tests,
        waiting,
    )


def _why(report: Report) -> str:
    said = " ".join(" ".join(report.evidence).split())[-_WHY_CHARS:]
    return f"{without_results(report.verdict)}: {said}"


def _traced(bench: Bench, tests: tuple[str, ...]) -> JSON:
    package = bench.package
    found = bench.probe(package.tree, trace=package.sources, tests=tests)
    if found.problem:
        raise ConfigError(
            f"the tests give no results while their calls are watched: {found.problem}"
        )
    calls = {test: sorted(one) for test, one in found.calls.items()}
    return {"results": dict(found.results), "calls": calls, "waiting": sorted(found.waiting)}


def candidates(package: Package, sound: Sound, seed: int) -> list[Mutation]:
    """Every edit of a function that a stable test calls, in an order that the seed decides."""
    twins = Counter(package.tree.values())
    found = [
        mutation
        for path in package.sources
        if twins[package.tree[path]] == 1
        for mutation in mutations(path, package.tree[path])
        if (path, mutation.def_line) in sound.covering
    ]
    return sorted(found, key=lambda one: hashlib.sha256(f"{seed}\0{_key(one)}".encode()).digest())


class _Search:
    """Measures candidates in order until there are enough tasks."""

    def __init__(
        self, bench: Bench, sound: Sound, plan: SynthPlan, journal: Journal, progress: Progress
    ) -> None:
        self._bench, self._sound, self._plan = bench, sound, plan
        self._journal, self._progress = journal, progress
        self._refused: Counter[str] = Counter()
        self._taken: list[tuple[Mutation, dict[str, JSON]]] = []
        self._wide: list[tuple[Mutation, dict[str, JSON]]] = []  # taken where nothing nearer is
        self._marks: dict[str, str] = {}
        self._decided_on: set[Mutation] = set()
        self._tried = 0

    def run(self, wanted: Sequence[Mutation]) -> None:
        """Measures ahead of the decision; the decision goes in order, whatever is done first."""
        quota = Quota(self._bench.package.name, self._plan.count, len({one.path for one in wanted}))
        self._pass(wanted, quota)
        if not self._enough():
            quota.forget_splits()
            self._pass([one for one in wanted if one not in self._decided_on], quota)
        for mutation, found in sorted(self._wide, key=lambda pair: len(pair[1]["fail"])):
            room = len(self._taken) < self._plan.count and quota.allows(mutation)
            if room and self._decided(mutation, found):
                quota.take(mutation)

    def _pass(self, wanted: Sequence[Mutation], quota: Quota) -> None:
        with ThreadPoolExecutor(self._plan.jobs) as pool:
            useful = (one for one in wanted if quota.allows(one))
            for mutation, result in ahead(pool, self._plan.jobs, useful, self._measured):
                if not quota.allows(mutation):
                    continue
                self._tried += 1
                self._decided_on.add(mutation)
                found = result.result()
                if found.get("wide"):
                    self._wide.append((mutation, found))
                elif self._decided(mutation, found):
                    quota.take(mutation)
                if self._enough():
                    break

    def _enough(self) -> bool:
        limit = self._plan.count * self._plan.tries_per_task
        return len(self._taken) >= self._plan.count or self._tried >= limit

    def _decided(self, mutation: Mutation, found: dict[str, JSON]) -> bool:
        reason = str(found.get("refused", "")) or self._repetition(mutation, found)
        if reason:
            self._refused[reason] += 1
            return False
        self._taken.append((mutation, found))
        self._progress(
            f"[{len(self._taken)}/{self._plan.count}] {mutation.path} {mutation.function} "
            f"{mutation.operator}: {len(found['fail'])} tests catch it "
            f"({self._tried} tried)"
        )
        return True

    def _repetition(self, mutation: Mutation, found: dict[str, JSON]) -> str:
        """The same text or the same changed lines, or the same deciding tests for another function
        (it may be in another split), make no second task.
        """
        topic = mutation.topic
        lines = semantic_key(self._bench.package.name, self._patch(mutation), "")
        issue, tests = f"issue {found['issue']}", f"tests {found['fail']}"
        if issue in self._marks or lines in self._marks:
            return "the same text or lines as another task"
        if self._marks.get(tests, topic) != topic:
            return "decided by the same tests as another task"
        self._marks |= {issue: topic, lines: topic, tests: topic}
        return ""

    def _patch(self, mutation: Mutation) -> str:
        """The fix."""
        sound = self._bench.package.tree[mutation.path]
        return make_patch({mutation.path: mutation.applied(sound)}, {mutation.path: sound})

    def _measured(self, mutation: Mutation) -> dict[str, JSON]:
        believed = self._believed(mutation.path)
        if believed != "complete":
            return {"refused": f"the grader does not believe its fix: {believed}"}
        trial = _Trial(self._bench, self._sound, mutation, self._plan.repeats)
        measured: dict[str, JSON] = self._journal.once(_key(mutation), trial.measured)
        return measured

    def _believed(self, path: str) -> str:
        """What the grader says of the sound file as a patch: one that reads tests looks forged."""

        def graded() -> JSON:
            tree = self._bench.package.tree
            return self._bench.suite(tree, self._sound.tests, (path,)).verdict

        return str(self._journal.once(f"sound as a patch: {path}", graded))

    def written(self, out: Path) -> Made:
        package, plan = self._bench.package, self._plan
        rows = [self._row(out, mutation, found) for mutation, found in self._taken]
        if not rows:
            raise ConfigError(
                f"no task came of {self._tried} planted faults: {dict(self._refused)}",
                hint="does the suite test behaviour? --tests and --sources choose other files",
            )
        made = {
            "by": "synth",
            "package": f"{package.name} {package.version}".strip(),
            "seed": plan.seed,
            "repeats": plan.repeats,
            "wanted": plan.count,
            "tried": self._tried,
            "refused": dict(sorted(self._refused.items())),
            "operators": dict(sorted(Counter(one.operator for one, _ in self._taken).items())),
            "files": dict(sorted(Counter(one.path for one, _ in self._taken).items())),
            "flaky": sorted(self._sound.stable.flaky),
            "waiting": sorted(self._sound.waiting),
        }
        archives = {package.archive_name: package.archive}
        manifest = write_set(out, rows, archives, made)
        flaky = tuple(sorted(self._sound.stable.flaky))
        return Made(out, len(rows), self._tried, dict(self._refused), flaky, manifest)

    def _row(self, out: Path, mutation: Mutation, found: dict[str, JSON]) -> Row:
        package = self._bench.package
        sound = package.tree
        faulty = {**sound, mutation.path: mutation.applied(sound[mutation.path])}
        hidden = without_tests(sound, found["fail"])
        return task_row(
            package,
            topic=mutation.topic,
            issue=found["issue"],
            patch=self._patch(mutation),
            test_patch=make_patch(hidden, {path: sound[path] for path in hidden}),
            setup_patch=make_patch(sound, {**hidden, mutation.path: faulty[mutation.path]}),
            fail_to_pass=found["fail"],
            pass_to_pass=found["pass"],
            folder=archive_folder(out),
            image=self._bench.image,
            python=self._bench.python,
            plugins=self._bench.plugins,
            origin={
                "by": "synth",
                "operator": mutation.operator,
                "path": mutation.path,
                "function": mutation.function,
                "seed": self._plan.seed,
            },
        )


@dataclass(frozen=True, slots=True)
class _Trial:
    """One fault, measured: first by the tests that call the function, then by the whole suite."""

    bench: Bench
    sound: Sound
    mutation: Mutation
    repeats: int

    def measured(self) -> dict[str, JSON]:
        path, before = self.mutation.path, self.bench.package.tree[self.mutation.path]
        after = self.mutation.applied(before)
        if not changes_tree(before, after):
            return {"refused": "not another program"}
        tree = {**self.bench.package.tree, path: after}
        near = self.sound.covering[path, self.mutation.def_line]
        first = self.bench.probe(tree, only=near)
        reason = self._too_much_or_little(first, near)
        return {"refused": reason} if reason else self._in_full(tree, first)

    def _too_much_or_little(self, probed: Probed, tests: Iterable[str]) -> str:
        if probed.problem:
            return without_results(probed.problem)
        failing = [test for test in tests if probed.results.get(test, "MISSING") in _BAD]
        if not failing:
            return "no test notices"
        functions = {plain_name(test) for test in failing}
        if len(functions) > MAX_FAILING_FUNCTIONS or len(failing) > MAX_FAILING_TESTS:
            return "breaks too much"
        crash = all(_crashed(probed, test) for test in failing)
        if len(failing) == len(list(tests)) and (len(failing) > 1 or crash):
            return "breaks all that its function does"
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
        return self._told(tree, failing, passing, same_failures(first, whole, failing))

    def _told(
        self,
        faulty: dict[str, bytes],
        failing: list[str],
        passing: list[str],
        shown: Mapping[str, Failure],
    ) -> dict[str, JSON]:
        package = self.bench.package
        text = issue_text(self.bench, self.sound.names, (package.tree, faulty), shown)
        if not text:
            return {"refused": UNSHOWN}
        if gives_away(text, _fixed_lines(package.tree[self.mutation.path], self.mutation)):
            return {"refused": "its issue would give the fix away"}
        near = self.sound.covering[self.mutation.path, self.mutation.def_line]
        functions = {plain_name(test) for test in failing}
        wide = len(functions) > LOCAL_FUNCTIONS or 2 * len(set(failing) & set(near)) > len(near)
        return {"fail": failing, "pass": passing, "issue": text, "wide": wide}


def _crashed(probed: Probed, test: str) -> bool:
    return not _said(probed, test).startswith(("AssertionError", "Failed"))


def _said(probed: Probed, test: str) -> str:
    failure = probed.failures.get(test)
    return f"{failure.kind} {failure.message}" if failure else ""


def same_failures(first: Probed, whole: Probed, failing: Sequence[str]) -> dict[str, Failure]:
    """Failures that two runs tell alike: what varies is no symptom to report."""
    return {
        test: whole.failures[test]
        for test in failing
        if test in whole.failures
        and test in first.failures
        and scrubbed(first.failures[test].message) == scrubbed(whole.failures[test].message)
    }


def _fixed_lines(source: bytes, mutation: Mutation) -> list[str]:
    """The sound lines that the fix puts back."""
    start = source.rfind(b"\n", 0, mutation.start) + 1
    end = source.find(b"\n", max(mutation.end - 1, mutation.start))
    return source[start : end if end >= 0 else None].decode("utf-8", "replace").split("\n")


def _key(mutation: Mutation) -> str:
    """Names an edit by what it does to which bytes."""
    return (
        f"{mutation.path}:{mutation.start}-{mutation.end}:{mutation.operator}:"
        f"{mutation.replacement.decode('utf-8', 'replace')}"
    )


def _about(sound: Sound) -> str:
    stable = sound.stable
    text = f"{len(stable.passing)} stable tests call {len(sound.covering)} functions"
    out = {"flaky": stable.flaky, "racing their own threads": sound.waiting}
    left = [f"; {why} and left out: {sorted(tests)}" for why, tests in out.items() if tests]
    return text + "".join(left)
