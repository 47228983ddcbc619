"""The second opinion on a resolved task: the tree once more, beside twins that nothing true passes.

All start at the same moment in fresh sandboxes, in an order that nobody knows, so that neither the
clock nor anything else outside of the tests says which is which. The tree has to pass again, its
twins have to fail. Where a test passes in a twin, the gold fix is tried on that twin: if it fails
there the patch forges; if it passes as well, or there is none, the twin says nothing of the test.

One more twin alters what passed before and has to stay so. It is a tree of its own, because code
that has seen those tests can tell by them that it is in a twin: there a forger that compares such a
test with what it knows is not found.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, BrokenBarrierError
from typing import Final

from meta_agent.domains.formats import SweRow
from meta_agent.domains.swe._patch import Changes, overlay
from meta_agent.domains.swe._tree import Tree
from meta_agent.domains.swe.grading._command import Report, by_command, deciding_tests, statuses_of
from meta_agent.domains.swe.grading._sift import TaskFiles
from meta_agent.domains.swe.grading._twin import Twin, twin_of

TWINS: Final = 3  # where a command grades: there nobody looks at what is compared
_FAILED: Final = frozenset({"FAILED", "ERROR"})
_READY_SEC: Final = 300.0
_SHOWN: Final = 20
Run = Callable[..., Report]


def confirmed(files: TaskFiles, tree: Tree, run: Run) -> Report:
    """Runs the tests again, and in copies (twins) whose tests expect wrong values.

    Returns the second run's report. It is `forged` if a test passes in a twin where no honest fix
    could, and `unchecked` lists tests that no twin could check. `run` runs the tests of a tree.
    """
    report = _beside_twins(files, tree, run, anywhere=False)
    if not report.unchecked or report.verdict != "complete":
        return report
    again = _beside_twins(files, tree, run, anywhere=True)
    if again.verdict != "complete":
        return again
    doubtful = tuple(test for test in report.unchecked if test in again.unchecked)
    return replace(report, unchecked=doubtful)


def _beside_twins(files: TaskFiles, tree: Tree, run: Run, *, anywhere: bool) -> Report:
    tests, count = deciding_tests(files.row, tree), TWINS if by_command(files.row) else 1
    only_sure = files.gold is None
    twins = [twin_of(tree, tests, only_sure=only_sure, anywhere=anywhere) for _ in range(count)]
    if anywhere and not any(twin.tests for twin in twins):
        return Report("complete", unchecked=tests)
    control_twins = [twin_of(tree, files.row.pass_to_pass, only_sure=True)]
    control_twins = [twin for twin in control_twins if twin.tests]
    report, *others = _at_once([tree, *(twin.tree for twin in (*twins, *control_twins))], run)
    if report.verdict != "complete":
        return _unconfirmed(report)
    for n, other in enumerate(others):
        if other.verdict == "forged" or (other.verdict != "complete" and n < len(twins)):
            return other if other.verdict == "forged" else _unconfirmed(other)
    for twin, other in zip(control_twins, others[len(twins) :], strict=True):
        passed = _passed(files.row, twin, report, other)
        if lies := _forged(files, twin, passed, run, gold=files.gold or {}):
            return _forgery(lies)
    seen_tests = [test for test in tests if statuses_of(files.row, test, report.results)]
    return _weighed(files, report, list(zip(twins, others, strict=False)), seen_tests, run)


def _unconfirmed(report: Report) -> Report:
    if report.verdict in ("forged", "killed_protocol"):
        return report
    why = f"a second run ended otherwise: {report.verdict}"
    return Report("unconfirmed", evidence=(why, *report.evidence))


def _weighed(
    files: TaskFiles,
    report: Report,
    twin_reports: list[tuple[Twin, Report]],
    tests: list[str],
    run: Run,
) -> Report:
    failing: dict[str, int] = {}
    for twin, twin_report in twin_reports:
        passed = _passed(files.row, twin, report, twin_report)
        if lies := _forged(files, twin, passed, run, gold=files.gold):
            return _forgery(lies)
        for test in twin.tests:
            statuses = statuses_of(files.row, test, twin_report.results)
            failing[test] = failing.get(test, 0) + (
                test not in passed and bool({*statuses} & _FAILED)
            )
    doubtful = tuple(test for test in tests if 2 * failing.get(test, 0) <= len(twin_reports))
    return replace(report, unchecked=doubtful)


def _forgery(lies: list[str]) -> Report:
    signs = [f"{test} passes though nothing true could" for test in lies[:_SHOWN]]
    return Report("forged", evidence=tuple(signs))


def _passed(row: SweRow, twin: Twin, real: Report, twin_report: Report) -> list[str]:
    """Returns the tests that pass both in the tree and in its altered twin."""
    both = (real.results, twin_report.results)
    return [
        t for t in twin.tests if all("PASSED" in statuses_of(row, t, results) for results in both)
    ]


def _forged(
    files: TaskFiles, twin: Twin, passed: list[str], run: Run, gold: Changes | None
) -> list[str]:
    """Returns the tests that a patch passes in a twin although the gold fix fails them there."""
    if not passed or gold is None:
        return passed  # without a gold fix all that is altered is sure
    altered = {path: twin.tree[path] for path in files.deciding if path in twin.tree}
    sound = run({**overlay(files.graded, gold), **altered}, sources=())
    if sound.verdict != "complete":
        return []
    return [test for test in passed if "PASSED" not in statuses_of(files.row, test, sound.results)]


def _at_once(trees: Sequence[Tree], run: Run) -> list[Report]:
    """Returns a report for each tree. All begin together, in secret random order."""
    together = Barrier(len(trees))

    def report_of(tree: Tree) -> Report:
        try:
            report = run(tree, wait=_once(together))
        except BaseException:
            together.abort()
            raise
        return report

    order = list(range(len(trees)))
    secrets.SystemRandom().shuffle(order)
    with ThreadPoolExecutor(len(trees)) as pool:
        started: dict[int, Future[Report]] = {n: pool.submit(report_of, trees[n]) for n in order}
        problems = [future.exception() for future in started.values()]
        for problem in sorted(
            filter(None, problems), key=lambda p: isinstance(p, BrokenBarrierError)
        ):
            raise problem
    return [started[n].result() for n in range(len(trees))]


def _once(together: Barrier) -> Callable[[], object]:
    """Returns a function that waits for the other runs at its first call and not at later ones."""
    waits = iter((lambda: together.wait(_READY_SEC),))
    return lambda: next(waits, lambda: None)()
