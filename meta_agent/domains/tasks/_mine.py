"""Turns the bug-fix commits of a repository into tasks.

The tree of a task is the parent commit's, as plain files: no history, no refs. The commit's changes
to tests are `test_patch`, its changes to source are the gold patch, and its message goes nowhere
near the agent: the issue text says what the tests show on the unfixed tree.

Promises: FAIL_TO_PASS failed every time before the fix and passed every time after it,
PASS_TO_PASS passed every time on both, all in fresh sandboxes; the same repository gives the same
rows.

Does not cover: commits whose tests need what only the fix has (a new function, say): they describe
a feature. Dependencies of old commits that the image does not have.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.core.history import foreign_history
from meta_agent.core.protocols import JSON
from meta_agent.domains.formats import semantic_key
from meta_agent.domains.swe import SandboxFactory, make_patch
from meta_agent.domains.tasks._bench import Bench
from meta_agent.domains.tasks._fixes import Fix, read_fixes
from meta_agent.domains.tasks._journal import Journal, ahead
from meta_agent.domains.tasks._made import Made, Progress
from meta_agent.domains.tasks._measure import Measure
from meta_agent.domains.tasks._package import Package, package_of
from meta_agent.domains.tasks._rows import Row, archive_folder, make_room, task_row, write_set


@dataclass(frozen=True, slots=True)
class MinePlan:
    """What to look for. `tests` and `sources` are patterns, as `read_package` takes them.

    `touched`: of the suite, only the files that a commit touches have a say, as in SWE-bench; a
    suite may be too long to run as a whole, several times for each commit.
    """

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

    def __post_init__(self) -> None:
        if min(self.count, self.jobs) < 1 or self.repeats < 2:
            raise ConfigError("count and jobs: 1 or more; repeats: 2 or more, or nothing is stable")


def mine(
    repository: Path, factory: SandboxFactory, out: Path, plan: MinePlan, progress: Progress
) -> Made:
    """Writes a task file, its archives and its manifest."""
    make_room(out)
    with foreign_history(repository, deep=True) as history:
        settings = {**dataclasses.asdict(plan), "count": 0, "jobs": 0, "head": history.head()}
        journal = Journal(out, settings)
        if journal.taken_up:
            progress(f"taking up {journal.taken_up} measurements of an interrupted search")
        head = package_of(
            history.tree(history.head()),
            repository.resolve().name,
            history.head(),
            plan.tests,
            plan.sources,
        )
        bench = Bench(head, factory, plan.image, plan.python, plan.plugins).checked()
        if bench.held:
            progress(bench.held)
        dig = _Dig(bench, out, plan, journal, progress)
        dig.run(read_fixes(history, any_message=plan.any_message))
    made = dig.written(history_head=head.commit)
    journal.close()
    return made


class _Dig:
    """Measures candidates in order until there are enough tasks."""

    def __init__(
        self,
        head: Bench,
        out: Path,
        plan: MinePlan,
        journal: Journal,
        progress: Progress,
    ) -> None:
        self._bench, self._head, self._out = head, head.package, out
        self._plan, self._journal, self._progress = plan, journal, progress
        self._refused: Counter[str] = Counter()
        self._flaky: set[str] = set()
        self._rows: list[Row] = []
        self._archives: dict[str, bytes] = {}
        self._marks: set[str] = set()
        self._tried = 0

    def run(self, found: Iterator[Fix | str]) -> None:
        """Takes fixes as they come; the decision goes in the order of the history."""
        with ThreadPoolExecutor(self._plan.jobs) as pool:
            fixes = self._candidates(found)
            for fix, result in ahead(pool, self._plan.jobs, fixes, self._measured):
                self._tried += 1
                self._decide(fix, result.result())
                if len(self._rows) >= self._plan.count:
                    return

    def _candidates(self, found: Iterator[Fix | str]) -> Iterator[Fix]:
        for one in found:
            if isinstance(one, Fix):
                yield one
            else:
                self._refused[one] += 1

    def _measured(self, fix: Fix) -> dict[str, JSON]:
        def measure() -> dict[str, JSON]:
            try:
                plan = self._plan
                trial = Measure(self._bench_of(fix), fix, plan.repeats, plan.tests, plan.touched)
                return trial.measured()
            except ConfigError as problem:  # the old tree has no tests, or no package
                return {"refused": str(problem).split(":")[0]}

        found: dict[str, JSON] = self._journal.once(fix.commit.id, measure)
        return found

    def _bench_of(self, fix: Fix) -> Bench:
        return dataclasses.replace(self._bench, package=self._package(fix))

    def _package(self, fix: Fix) -> Package:
        """The parent's tree; named by the commit, since a version spans many."""
        plan = self._plan
        found = package_of(fix.before, self._head.name, fix.commit.parent, plan.tests, plan.sources)
        return dataclasses.replace(found, name=self._head.name, version="")

    def _decide(self, fix: Fix, found: dict[str, JSON]) -> None:
        self._flaky.update(found.get("flaky", ()))
        reason = str(found.get("refused", ""))
        key = "" if reason else semantic_key(self._head.name, fix.patch, found["issue"])
        marks = set() if reason else {key, found["issue"]}
        if marks & self._marks:
            reason = "the same fix or the same text as another commit's"
        if reason:
            self._refused[reason] += 1
            self._progress(
                f"{fix.commit.id[:12]} refused: {reason} {found.get('why', '')}".rstrip()
            )
            return
        self._marks |= marks
        self._keep(fix, found, key)

    def _keep(self, fix: Fix, found: dict[str, JSON], key: str) -> None:
        package = self._package(fix)
        self._archives[package.archive_name] = package.archive
        self._rows.append(
            task_row(
                package,
                topic=key,
                issue=found["issue"],
                patch=fix.patch,
                test_patch=make_patch(fix.before, fix.tests),
                setup_patch="",
                fail_to_pass=found["fail"],
                pass_to_pass=found["pass"],
                folder=archive_folder(self._out),
                image=self._plan.image,
                python=self._plan.python,
                plugins=self._plan.plugins,
                own=self._bench.own,
                origin={"by": "mine", "commit": fix.commit.id, "subject": fix.commit.subject},
            )
        )
        self._progress(
            f"[{len(self._rows)}/{self._plan.count}] {fix.commit.id[:12]} "
            f"{fix.commit.subject[:60]}: {len(found['fail'])} tests decide"
        )

    def written(self, *, history_head: str) -> Made:
        if not self._rows:
            raise ConfigError(
                f"no task came of {self._tried} candidate commits: {dict(self._refused)}",
                hint=None
                if self._plan.any_message
                else "--any-message tries commits that do not speak of a fix",
            )
        made = {
            "by": "mine",
            "package": self._head.name,
            "head": history_head,
            "repeats": self._plan.repeats,
            "tried": self._tried,
            "refused": dict(sorted(self._refused.items())),
            "flaky": sorted(self._flaky),
            "held": list(self._bench.own),
        }
        manifest = write_set(self._out, self._rows, self._archives, made)
        flaky = tuple(sorted(self._flaky))
        return Made(self._out, len(self._rows), self._tried, dict(self._refused), flaky, manifest)
