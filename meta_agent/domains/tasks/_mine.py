"""Turns the bug-fix commits of a repository into tasks.

The tree of a task is the parent commit's, as plain files: no history, no refs. The commit's changes
to tests are `test_patch`, its changes to source the gold patch. The agent never sees its message:
the issue text says what the tests show on the unfixed tree.

Promises: what `_measure` promises of the tests; the same repository gives the same rows. A search
ends early if one module is missing again and again, and says so.

Does not cover: commits whose tests need what only the fix has (a new function, say): they describe
a feature. Dependencies of old commits that the image lacks.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.core.history import foreign_history
from meta_agent.domains.formats import semantic_key
from meta_agent.domains.swe import Report, SandboxFactory, Tree, make_patch
from meta_agent.domains.swe._patch import overlay
from meta_agent.domains.tasks._bench import Bench, Failure
from meta_agent.domains.tasks._collection import (
    EXHAUSTED,
    Collection,
    Draft,
    Made,
    Measured,
    Progress,
    make_room,
)
from meta_agent.domains.tasks._fixes import Fix, read_fixes
from meta_agent.domains.tasks._journal import Journal, ahead
from meta_agent.domains.tasks._measure import (
    NONE_PASSES,
    NONE_REMAINS,
    NONE_TELLS,
    UNIMPORTABLE,
    WHY_CHARS,
    Comparison,
    Stable,
    evidence,
    first_without_results,
    together,
    without_results,
)
from meta_agent.domains.tasks._package import package_of, suite_files

PATIENCE = 5  # commits in a row that lack the same module
_MANY = 3  # failing tests that are asked for their reason
_FEATURE = "its tests call what only the fix has, so it is a feature"
_FAIL_FIXED = "its tests fail with the fix too"
_LACKS_MODULE = re.compile(r"No module named '([\w.]+)'")
_LACKS = re.compile(
    r"(?:no attribute|cannot import name|name) '(\w+)'|unexpected keyword argument '(\w+)'"
)
_TOO_MANY = re.compile(r"(\w+)\(\) takes .*positional arguments? but .* given")


@dataclass(frozen=True, slots=True)
class MinePlan:
    """What to look for. `tests` and `sources` are patterns, as `read_package` takes them."""

    count: int = 40
    repeats: int = 2
    jobs: int = 1
    any_message: bool = False
    image: str | None = None
    python: str = "python3"
    tests: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    touched: bool = False
    """Runs only the test files that a commit touches, as SWE-bench does, if a suite is long."""

    def __post_init__(self) -> None:
        if min(self.count, self.jobs) < 1 or self.repeats < 2:
            raise ConfigError("count and jobs: 1 or more; repeats: 2 or more, or nothing is stable")


def mine(
    repository: Path, factory: SandboxFactory, out: Path, plan: MinePlan, progress: Progress
) -> Made:
    """Writes a task file, its archives and its manifest."""
    make_room(out)
    with foreign_history(repository, deep=True) as history:
        head = history.head()
        settings = {**dataclasses.asdict(plan), "count": 0, "jobs": 0, "head": head}
        journal = Journal(out, settings)
        if journal.resumed:
            progress(f"using {journal.resumed} measurements of an interrupted search")
        label = repository.resolve().name
        package = package_of(history.tree(head), label, head, plan.tests, plan.sources)
        bench = Bench(package, factory, plan.image, plan.python, plan.plugins).checked()
        if bench.warning:
            progress(bench.warning)
        collection = Collection(out, plan.count, progress)
        if not plan.any_message:
            collection.hint = "--any-message also tries commits that name no fix"
        if (repository / ".git" / "shallow").is_file():
            collection.hint = "the clone is shallow; git fetch --unshallow brings older fixes"
            progress(collection.hint)
        _Search(bench, plan, journal, collection).run(
            read_fixes(history, any_message=plan.any_message)
        )
    method = {"by": "mine", "package": package.name, "head": head, "repeats": plan.repeats}
    written = collection.write(method | {"held": list(bench.in_image)})
    journal.close()
    return written


class _Search:
    """Measures commits in the order of the history until there are enough tasks."""

    def __init__(
        self, bench: Bench, plan: MinePlan, journal: Journal, collection: Collection
    ) -> None:
        self._bench, self._plan, self._journal = bench, plan, journal
        self._collection = collection
        self._missing: list[str] = []  # the modules that the last commits lacked

    def run(self, fixes: Iterator[Fix | str]) -> None:
        for fix, measured in ahead(self._plan.jobs, self._candidates(fixes), self._measured):
            self._collection.decide(self._draft(fix, measured), measured)
            if self._collection.full or self._is_hopeless(measured):
                return
        self._collection.advice = EXHAUSTED

    def _candidates(self, fixes: Iterator[Fix | str]) -> Iterator[Fix]:
        for fix in fixes:
            if isinstance(fix, Fix):
                yield fix
            else:
                self._collection.refused[fix] += 1

    def _is_hopeless(self, measured: Measured) -> bool:
        """Whether the last commits lacked the same module; then the collection's advice says so."""
        lacks = _LACKS_MODULE.search(measured.get("why", ""))
        module = lacks[1] if lacks else ""
        same = module and module in self._missing
        self._missing = [*self._missing, module] if same else [module] if module else []
        if len(self._missing) < PATIENCE:
            return False
        self._collection.advice = self._collection.hint = (
            f"the search ended early: {PATIENCE} commits in a row lack the module {module}; build "
            "an image with it (meta-agent sandbox build --requirements FILE), then --image TAG"
        )
        return True

    def _measured(self, fix: Fix) -> Measured:
        def measure() -> Measured:
            try:
                return _Trial(self._bench_of(fix), fix, self._plan).measured()
            except ConfigError as problem:  # the old tree has no tests, or no package
                return {"refused": str(problem).split(":")[0]}

        measured: Measured = self._journal.once(fix.commit.id, measure)
        return measured

    def _bench_of(self, fix: Fix) -> Bench:
        """A bench of the parent's tree; named by the commit, since a version spans many."""
        plan, name = self._plan, self._bench.package.name
        package = package_of(fix.before, name, fix.commit.parent, plan.tests, plan.sources)
        package = dataclasses.replace(package, name=name, version="")
        return dataclasses.replace(self._bench, package=package)

    def _draft(self, fix: Fix, measured: Measured) -> Draft:
        label = f"{fix.commit.id[:12]} {fix.commit.subject[:60]}"
        origin = {"by": "mine", "commit": fix.commit.id, "subject": fix.commit.subject}
        if "refused" in measured:
            return Draft(self._bench, label, "", "", "", "", origin)
        key = semantic_key(self._bench.package.name, fix.patch, measured["issue"])
        tests = make_patch(fix.before, fix.tests)
        return Draft(self._bench_of(fix), label, key, fix.patch, tests, "", origin)


@dataclass(frozen=True)
class _Trial:
    """Runs a commit's tests on the tree with the fix, then on the tree without."""

    bench: Bench
    fix: Fix
    plan: MinePlan

    def measured(self) -> Measured:
        before = overlay(self.bench.package.tree, self.fix.tests)
        after = overlay(before, self.fix.source)
        files = suite_files(after, self.plan.tests)  # the commit may bring some
        if self.plan.touched:
            files = tuple(path for path in files if path in self.fix.tests)
        if not files:
            return {"refused": "touches no test file of the suite"}
        changed = tuple(self.fix.source)
        reports = [self.bench.suite(after, files, changed) for _ in range(self.plan.repeats)]
        if lost := first_without_results(reports):
            return self._lost(lost, after, files)
        stable = together([report.results for report in reports])
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
        return measured | comparison.issue(failures, self.fix.added_lines)

    def _only_in_fix(self, failures: Mapping[str, Failure]) -> set[str]:
        """Names that failures complain of and that only the fix has, or gave a new signature."""
        before = b"\n".join(text for path, text in self.fix.before.items() if path.endswith(".py"))
        old = set(re.findall(r"\w+", before.decode("utf-8", "replace")))
        added = "\n".join(self.fix.added_lines)
        new = set(re.findall(r"\w+", added)) - old
        redefined = set(re.findall(r"\bdef (\w+)", added))
        messages = "\n".join(failure.message for failure in failures.values())
        names = {name for match in _LACKS.findall(messages) for name in match if name in new}
        return names | redefined.intersection(_TOO_MANY.findall(messages))

    def _lost(self, lost: Report, after: Tree, files: Sequence[str]) -> Measured:
        why = evidence(lost)
        if set(lost.evidence) <= set(files):  # the grader names the files and no reason
            why = self.bench.probe(after, tests=files).problem or why
        return {"refused": f"{without_results(lost.verdict)} with the fix", "why": why}

    def _failing_with_fix(self, after: Tree, files: Sequence[str], stable: Stable) -> Measured:
        """Another reason if most of what the commit touches does not hold with the fix either."""
        touched = [path for path in files if path in self.fix.tests]
        failing = sorted(test for test in stable.failing if test.split("::")[0] in touched)
        passing = [test for test in stable.passing if test.split("::")[0] in touched]
        if not touched or len(failing) < len(passing):
            return {}
        probe = self.bench.probe(after, tests=touched, only=failing[:_MANY] or None)
        reasons = [f"{failure.kind}: {failure.message}" for failure in probe.failures.values()]
        why = " ".join([*sorted(reasons)[:1], probe.problem][0].split())[:WHY_CHARS]
        return {"refused": _FAIL_FIXED, "why": why}
