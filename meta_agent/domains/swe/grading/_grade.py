"""The sealed grader: official tests over the sifted patch, in a sandbox that has run nothing else.

Promises: a task counts as resolved only if a report came back with this run's nonce, the canaries
behaved, pytest was not altered, every expected test is in the report with an acceptable status
(SWE-bench's rule: FAIL_TO_PASS must pass or xfail, PASS_TO_PASS may also be skipped), and the same
patch does not pass tests that cannot be passed (`_twin`). No results is never a pass. A sandbox
that could not work, or lacks pytest, raises `SandboxError`; one that dies twice while it runs the
candidate's code is the candidate's doing.

A set whose tests are not pytest's is graded by its own command (`_command`).
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from pathlib import PurePosixPath

from meta_agent.core.errors import CANDIDATE_KILLS, SandboxError
from meta_agent.core.protocols import JSON, ExecResult, Outcome, Sandbox
from meta_agent.domains.formats import SweRow
from meta_agent.domains.swe._patch import overlay
from meta_agent.domains.swe._tree import Tree
from meta_agent.domains.swe.grading._beside import confirmed
from meta_agent.domains.swe.grading._command import (
    Report,
    by_command,
    ended_by_limit,
    run_command,
    status_of,
    unmet,
    whole_map,
)
from meta_agent.domains.swe.grading._comparing import ComparingPlace, comparing_places
from meta_agent.domains.swe.grading._scan import UNREADABLE
from meta_agent.domains.swe.grading._sift import Sifted, TaskFiles, is_test_path, sift

SandboxFactory = Callable[[str | None], Sandbox]  # takes the image, None for the default one

# Code that spins is stopped by the processor time it used, so that a busy machine fails nobody; the
# wall clock only ends code that sleeps.
GRADE_CPU_SEC = 120
GRADE_TIMEOUT_SEC = 600.0
_REPORT_LIMIT_BYTES = 8 << 20
_SHOWN_TESTS = 20
_BREACH = "tamper:protocol"
_JOINED = re.compile(r"^from (?:__future__|meta_agent)\b.*$", re.MULTILINE)
UNCHECKED = "unchecked:tests"
"""A deciding test of which nobody can say whether it was passed or forged."""


@cache
def guest_source() -> str:
    """Returns the source of the test runner that runs inside the sandbox."""
    folder = resources.files("meta_agent.domains.swe")
    names = ("watch_guest.py", "compared_guest.py", "pytest_guest.py")
    watch, *others = (folder.joinpath(name).read_text("utf-8") for name in names)
    return "\n".join([watch, *(_JOINED.sub("", text) for text in others)])


def grade_patch(files: TaskFiles, patch: str, factory: SandboxFactory) -> Outcome:
    """Runs a task's tests on a patch. Raises SandboxError if a sandbox fails on its own."""
    sifted = sift(files, patch)
    if sifted.problem:
        return _outcome(
            files.row, sifted, Report("patch_does_not_apply", evidence=(sifted.problem,))
        )
    tree = overlay(files.graded, sifted.changes)
    run = partial(run_tests, files.row, factory=factory, sources=tuple(sorted(sifted.changes)))
    report = run(tree)
    if sifted.changes and _passes(files.row, report):
        report = _second_opinion(files, sifted, tree, report, run)
    return _outcome(files.row, sifted, report)


def _second_opinion(
    files: TaskFiles, sifted: Sifted, tree: Tree, report: Report, run: Callable[..., Report]
) -> Report:
    """Returns the report of a tree in which the files that tests read are the reference's.

    What a set's own command reads is not watched. There every changed file that is no source counts
    as read, and a patch that needs one of them is unchecked.
    """
    paths = report.expectations
    if is_by_command := by_command(files.row):
        paths = tuple(path for path in sifted.changes if not path.endswith(".py"))
    second = confirmed(files, _with_expectations(files, tree, paths), run)
    if is_by_command and paths and second.verdict == "complete" and not _passes(files.row, second):
        return replace(report, unchecked=paths)
    if second.strangers and second.verdict == "complete":
        strangers = set(second.strangers) - _reference_strangers(files, run, tuple(sifted.changes))
        return replace(second, unchecked=(*second.unchecked, *sorted(strangers)[:_SHOWN_TESTS]))
    return second


def _reference_strangers(
    files: TaskFiles, run: Callable[..., Report], changed: tuple[str, ...]
) -> frozenset[str]:
    """Returns what a run of the reference shows of compared values, from a cache where it can."""
    sources = tuple(sorted({*changed, *(files.gold or {})}))
    if sources not in files.reference_strangers:
        reference = run(overlay(files.graded, files.gold or {}), sources=sources)
        files.reference_strangers[sources] = frozenset(reference.strangers)
    return files.reference_strangers[sources]


def _with_expectations(files: TaskFiles, tree: Tree, paths: tuple[str, ...]) -> Tree:
    """Returns a tree in which the files that tests read are those of the reference tree."""
    reference = overlay(files.graded, files.gold or {})
    return overlay(tree, {path: reference.get(path) for path in paths})


def _passes(row: SweRow, report: Report) -> bool:
    return report.verdict == "complete" and not unmet(row, report.results)[0]


def run_tests(
    row: SweRow,
    tree: Tree,
    *,
    factory: SandboxFactory,
    paths: tuple[str, ...] | None = None,
    sources: tuple[str, ...] = (),
    wait: Callable[[], object] = lambda: None,
) -> Report:
    """Runs the test files `paths` of a tree in a fresh sandbox; None: those that grade the task.

    `sources` are changed files, which are watched for cheating. `wait` is called before the run.
    Raises SandboxError if the sandbox fails and the code under test is not the cause.
    """
    run = _Run(row, tree, factory, paths or _test_files(row), sources)
    for last_try in (False, True):
        try:
            return run.once(wait)
        except SandboxError as problem:
            if problem.kind not in CANDIDATE_KILLS:
                raise
            if last_try or problem.kind == "protocol":
                return Report(f"killed_{problem.kind}", evidence=(str(problem)[:300],))
    raise AssertionError("internal error, to be reported: the second try had no end")


@dataclass(frozen=True, slots=True)
class _Run:
    row: SweRow
    tree: Tree
    factory: SandboxFactory
    paths: tuple[str, ...]
    sources: tuple[str, ...]

    def once(self, wait: Callable[[], object]) -> Report:
        nonce = secrets.token_hex(16)
        sandbox = staged(self.row, self.tree, self.factory)
        try:
            wait()
            return self._in(sandbox, nonce)
        finally:
            sandbox.close()

    def _in(self, sandbox: Sandbox, nonce: str) -> Report:
        row = self.row
        if by_command(row):
            cpu_sec, wall_sec = GRADE_CPU_SEC, GRADE_TIMEOUT_SEC
            return run_command(row, sandbox, cpu_sec=cpu_sec, wall_sec=wall_sec)
        # Unbuffered: what pytest said is all there is to read where no report came.
        result = sandbox.exec(
            [_python(row), "-Iu", "-c", guest_source()],
            cwd="repo",
            stdin=_order(row, self.tree, self.paths, nonce, self.sources),
            timeout_sec=GRADE_TIMEOUT_SEC,
            cpu_limit_sec=GRADE_CPU_SEC,
            output_limit_bytes=_REPORT_LIMIT_BYTES,
        )
        return _believed(result, nonce)


def staged(row: SweRow, tree: Tree, factory: SandboxFactory) -> Sandbox:
    """Starts a sandbox with the files `tree` in `repo/`. Raises SandboxError if that fails."""
    sandbox = factory(row.image)
    try:
        _place(sandbox, row, tree)
    except SandboxError as problem:
        sandbox.close()
        why = f"cannot copy {row.instance_id} into a sandbox: {problem}"
        raise SandboxError(why, kind="start") from problem
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def _place(sandbox: Sandbox, row: SweRow, tree: Tree) -> None:
    """Writes a tree into `repo/`. Files that begin with `#!` become executable."""
    files = {f"repo/{path}": content for path, content in tree.items()}
    scripts = {path: content for path, content in files.items() if content.startswith(b"#!")}
    sandbox.write({path: content for path, content in files.items() if path not in scripts})
    if scripts:
        sandbox.write(scripts, executable=True)
    for name in row.source.kept_names if row.source else ():
        target = f"{(row.source.image_path if row.source else '') or ''}/{name}"
        linked = sandbox.exec(["ln", "-s", "--", target, f"repo/{name}"])
        if linked.exit_code != 0:
            raise SandboxError(f"cannot link {target}: {linked.stderr[-200:]!r}", kind="start")


def _order(
    row: SweRow, tree: Tree, paths: tuple[str, ...], nonce: str, sources: tuple[str, ...]
) -> bytes:
    has_conftest = any(PurePosixPath(path).name == "conftest.py" for path in tree)
    order = {
        "nonce": nonce,
        "files": list(paths),
        "pythonpath": list(row.source.pythonpath if row.source else (".",)),
        "noconftest": not has_conftest,
        "plugins": list(row.source.plugins if row.source else ()),
        "own": list(row.source.held if row.source else ()),
        "sources": list(sources),
        "test_sources": [path for path in tree if path.endswith(".py") and is_test_path(path)],
        "comparisons": sorted({place for path in sources for place in _places(tree.get(path))}),
    }
    return json.dumps(order).encode() + b"\n"


def _places(content: bytes | None) -> list[ComparingPlace]:
    """Returns where a file shows that it compares values; nothing where it is no Python."""
    try:
        return list(comparing_places((content or b"").decode("utf-8", "replace")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _python(row: SweRow) -> str:
    return row.source.python if row.source else "python3"


def _test_files(row: SweRow) -> tuple[str, ...]:
    return tuple(sorted({test.split("::", 1)[0] for test in row.expected_ids}))


def _believed(result: ExecResult, nonce: str) -> Report:
    if ended := ended_by_limit(result, GRADE_CPU_SEC, GRADE_TIMEOUT_SEC):
        return ended
    report = _parsed(result.stdout, nonce)
    if report is None:
        tail = result.stderr[-300:].decode("utf-8", "replace")
        return Report("no_results", evidence=(f"exit {result.exit_code} without a report: {tail}",))
    if problem := report.get("unready"):
        why, hint = f"the image cannot run the tests: {problem}", "meta-agent sandbox build --help"
        raise SandboxError(why, kind="image", hint=hint)
    return _checked(report, result.stderr[-300:].decode("utf-8", "replace"))


def _parsed(stdout: bytes, nonce: str) -> dict[str, JSON] | None:
    try:
        report = json.loads(stdout)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or report.get("nonce") != nonce:
        return None
    return report if isinstance(report.get("results"), dict) else None


def _checked(report: dict[str, JSON], tail: str) -> Report:
    if report.get("broken") or not report["results"]:
        reasons = [report.get("broken"), *report.get("collect_errors", [])]
        evidence = tuple(str(reason) for reason in reasons if reason) or (tail,)
        return Report("no_results", evidence=evidence)
    signs = _forgery(report)
    if signs:
        return Report("forged", evidence=tuple(signs))
    results = {str(test): str(status) for test, status in report["results"].items()}
    evidence = tuple(map(str, report.get("collect_errors", [])))
    expectations = tuple(map(str, report.get("expectations", [])))
    strangers = tuple(map(str, report.get("strangers", [])))
    return Report("complete", results, evidence, expectations, strangers)


def _forgery(report: dict[str, JSON]) -> list[str]:
    """Returns signs that a report is forged. pytest's status is 1, as canaries have to fail."""
    signs = [f"{name} was replaced" for name in report.get("changed", [])]
    signs += [f"plugin {name} appeared" for name in report.get("foreign_plugins", [])]
    signs += [f"{test} raised and was reported as passed" for test in report.get("forged", [])]
    signs += [f"the body of {test} was exchanged" for test in report.get("swapped", [])]
    signs += [f"changed code opened {test}" for test in report.get("readings", [])]
    if report.get("canaries_ok") is not True:
        signs.append("canary tests did not end as they must")
    if report.get("status") != 1:
        signs.append(
            f"pytest ended with status {report.get('status')}, which the canaries rule out"
        )
    return signs


def _outcome(row: SweRow, sifted: Sifted, report: Report) -> Outcome:
    broken, lost = unmet(row, report.results)
    as_expected = not broken and not lost and whole_map(row, report.results)
    resolved = report.verdict == "complete" and as_expected
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
    if not resolved:  # source that is no Python, most often: it fails, and hides nothing
        flags.discard(UNREADABLE)
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
