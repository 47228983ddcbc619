"""The sealed grader: official tests over the sifted patch, in a sandbox that has run nothing else.

Promises: a task counts as resolved only if a report came back with this run's nonce, the canaries
behaved, pytest was not altered, and every expected test is in the report with an acceptable status
(SWE-bench's rule: FAIL_TO_PASS must pass or xfail, PASS_TO_PASS may also be skipped). It is clean
only if the patch brings no word of danger (`_words`), and if it passes once more with the
reference's data files and the reference's ways to compare (`_beside`). No results is never a pass.
A sandbox that could not work, or lacks pytest, raises `SandboxError`; one that dies twice while it
runs the candidate's code is the candidate's doing. A grading takes at most two sandboxes, unless
one dies: the second is the reference's, once for each task that needs it (`_walls`).
"""

from __future__ import annotations

from dataclasses import replace

from meta_agent.core.protocols import JSON, Outcome
from meta_agent.domains.formats import SweRow
from meta_agent.domains.swe._patch import overlay
from meta_agent.domains.swe.grading._beside import besides
from meta_agent.domains.swe.grading._command import Report, status_of, unmet, whole_map
from meta_agent.domains.swe.grading._runs import LOOSE, STRICT, Bench, SandboxFactory, Walls
from meta_agent.domains.swe.grading._sift import Sifted, TaskFiles, sift

_SHOWN_TESTS = 20
_BREACH = "tamper:protocol"
UNCHECKED = "unchecked:tests"
"""The patch passes, but not with the reference's data files and ways to compare."""
_DEAD = ("killed", "timeout", "forged")


def grade_patch(files: TaskFiles, patch: str, factory: SandboxFactory) -> Outcome:
    """Runs a task's tests on a patch. Raises SandboxError if a sandbox fails on its own."""
    sifted = sift(files, patch)
    if sifted.problem:
        report = Report("patch_does_not_apply", evidence=(sifted.problem,))
    else:
        with Bench(files.row, factory, files.hidden, tuple(sorted(sifted.changes))) as bench:
            report = _report(files, sifted, bench)
    return _outcome(files.row, sifted, report)


def _report(files: TaskFiles, sifted: Sifted, bench: Bench) -> Report:
    """Returns the report of a sifted patch, and what of it only passes by its own data."""
    tree = overlay(files.graded, sifted.changes)
    walls = files.walls.get("walls", STRICT)
    report = bench.run(tree, walls)
    if not sifted.changes or report.verdict.startswith(_DEAD):
        return report
    if not _resolves(files.row, report) and "walls" not in files.walls:
        walls = files.walls["walls"] = _needed_walls(files, bench.factory)
        report = bench.run(tree, walls) if walls != STRICT else report
    if sifted.words or not _resolves(files.row, report):
        return report
    is_data = [
        path
        for path in sifted.changes
        if not path.endswith(".py") or (report.imported is not None and path not in report.imported)
    ]
    for other, names in besides(files, sifted.changes, is_data):
        if not _resolves(files.row, bench.run(other, walls)):
            return replace(report, unchecked=names)
    return report


def _needed_walls(files: TaskFiles, factory: SandboxFactory) -> Walls:
    """Returns the strictest walls behind which the reference's tests end as they do without any.

    Without walls the folders that its tests write to show.
    """
    tree = overlay(files.graded, files.gold or {})
    with Bench(files.row, factory, files.hidden) as bench:
        strict = bench.run(tree, STRICT)
        if _resolves(files.row, strict):
            return STRICT
        open_end, places = _ends(files.row, bench.run(tree, LOOSE)), bench.written()
        if _ends(files.row, strict) == open_end:
            return STRICT
        for walls in (Walls(places), Walls(places, hides=False), Walls((), hides=False)):
            if _ends(files.row, bench.run(tree, walls)) == open_end:
                return walls
    return LOOSE


def _ends(row: SweRow, report: Report) -> tuple[JSON, ...]:
    return *unmet(row, report.results), whole_map(row, report.results)


def _resolves(row: SweRow, report: Report) -> bool:
    return report.verdict == "complete" and _ends(row, report) == ([], [], True)


def _outcome(row: SweRow, sifted: Sifted, report: Report) -> Outcome:
    broken, lost = unmet(row, report.results)
    resolved = _resolves(row, report)
    verdict = (
        ("resolved" if resolved else "unresolved")
        if report.verdict == "complete"
        else report.verdict
    )
    flags = set(sifted.flags) | ({"tamper:report"} if report.verdict == "forged" else set())
    flags |= {_BREACH} if report.verdict == "killed_protocol" else set()
    flags |= {UNCHECKED} if resolved and report.unchecked else set()
    words = sifted.words if resolved else ()
    flags |= {"unchecked:words"} if words else set()
    detail = {
        "verdict": verdict,
        "fail_to_pass": [len(row.fail_to_pass) - len(broken), len(row.fail_to_pass)],
        "pass_to_pass": [len(row.pass_to_pass) - len(lost), len(row.pass_to_pass)],
        "not_passing": [
            f"{t} {status_of(t, report.results)}" for t in (broken + lost)[:_SHOWN_TESTS]
        ],
        "evidence": list(report.evidence),
        "unchecked": [*report.unchecked, *words[:_SHOWN_TESTS]],
        "dropped": dict(sifted.dropped),
    }
    return Outcome(success=resolved, detail=detail, flags=tuple(sorted(flags)))
