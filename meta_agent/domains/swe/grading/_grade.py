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

from contextlib import closing
from dataclasses import replace

from meta_agent.core.protocols import Outcome
from meta_agent.domains.formats import SweRow
from meta_agent.domains.swe._patch import overlay
from meta_agent.domains.swe.grading._beside import besides
from meta_agent.domains.swe.grading._command import Report, status_of, unmet
from meta_agent.domains.swe.grading._runs import LOOSE, STRICT, Bench, SandboxFactory, Walls
from meta_agent.domains.swe.grading._sift import Sifted, TaskFiles, sift

_SHOWN_TESTS = 20
_DEAD = ("killed", "timeout", "forged")


def grade_patch(files: TaskFiles, patch: str, factory: SandboxFactory) -> Outcome:
    """Runs a task's tests on a patch. Raises SandboxError if a sandbox fails on its own."""
    sifted = sift(files, patch)
    if sifted.problem:
        report = Report("patch_does_not_apply", evidence=(sifted.problem,))
    else:
        sources = tuple(sorted(sifted.changes))
        with closing(Bench(files.row, factory, files.hidden, sources)) as bench:
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
    for other, on_disk, names in besides(files, sifted.changes, report.imported):
        if not _resolves(files.row, bench.run(other, walls, on_disk)):
            return replace(report, unchecked=names)
    return report


def _needed_walls(files: TaskFiles, factory: SandboxFactory) -> Walls:
    """Returns the strictest walls behind which the reference's tests end as they do without any.

    Without walls the folders that its tests write to show.
    """
    tree = overlay(files.graded, files.gold or {})
    with closing(Bench(files.row, factory, files.hidden)) as bench:
        strict = bench.run(tree, STRICT)
        if _resolves(files.row, strict):
            return STRICT
        open_end, places = unmet(files.row, bench.run(tree, LOOSE).results), bench.written()
        if unmet(files.row, strict.results) == open_end:
            return STRICT
        for walls in (Walls(places), Walls(places, hides=False), Walls((), hides=False)):
            if unmet(files.row, bench.run(tree, walls).results) == open_end:
                return walls
    return LOOSE


def _resolves(row: SweRow, report: Report) -> bool:
    return report.verdict == "complete" and unmet(row, report.results) == ([], [])


def _outcome(row: SweRow, sifted: Sifted, report: Report) -> Outcome:
    broken, lost = unmet(row, report.results)
    resolved = _resolves(row, report)
    end = "resolved" if resolved else "unresolved"
    words = sifted.words if resolved else ()
    signs = {
        "tamper:report": report.verdict == "forged",
        "tamper:protocol": report.verdict == "killed_protocol",
        "unchecked:tests": resolved and bool(report.unchecked),
        "unchecked:words": bool(words),
    }
    flags = {*sifted.flags, *(flag for flag, is_shown in signs.items() if is_shown)}
    detail = {
        "verdict": end if report.verdict == "complete" else report.verdict,
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
