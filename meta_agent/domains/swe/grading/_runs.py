"""Runs of a task's tests: one sandbox for all runs of a patch, each behind its walls.

Promises: what a run was allowed to write is written anew before the next run. No results is never
a pass, and a report that shows signs of forgery says so.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final, NamedTuple, NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from meta_agent.core.errors import CANDIDATE_KILLS, SandboxError
from meta_agent.core.protocols import JSON, ExecResult, Sandbox
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.swe._tree import Tree
from meta_agent.domains.swe.grading._command import (
    Report,
    by_command,
    ended_by_limit,
    guest_text,
    run_command,
)

SandboxFactory = Callable[[str | None], Sandbox]  # takes the image, None for the default one

# Code that spins is stopped by the processor time it used, so that a busy machine fails nobody; the
# wall clock only ends code that sleeps.
GRADE_CPU_SEC = 120
GRADE_TIMEOUT_SEC = 600.0
_REPORT_LIMIT_BYTES = 8 << 20

# Prints the folders below `repo` in which something was written after the file `stamp`.
_WRITTEN = """
import json, os
since, found = os.stat("stamp").st_mtime_ns, set()
for top, folders, names in os.walk("repo"):
    folders[:] = [name for name in folders if name not in ("__pycache__", ".pytest_cache")]
    parts = [top, *(os.path.join(top, name) for name in names)]
    if any(os.lstat(part).st_mtime_ns > since for part in parts):
        found.add(os.path.relpath(top, "repo"))
print(json.dumps(sorted(found)))
"""


@with_config(ConfigDict(strict=True))
class _GuestReport(TypedDict):
    """What `pytest_guest` writes. Fields that this class lacks are ignored."""

    nonce: str
    results: dict[str, str]
    unready: NotRequired[str]
    broken: NotRequired[str | None]
    status: NotRequired[int]
    canaries_ok: NotRequired[bool]
    changed: NotRequired[list[str]]
    forged: NotRequired[list[str]]
    collect_errors: NotRequired[list[str]]
    imported: NotRequired[dict[str, int]]


_REPORT: Final = TypeAdapter(_GuestReport)


class Walls(NamedTuple):
    """What a run cannot do. `places`: folders of the tree that its tests may write to."""

    places: tuple[str, ...] = ()
    hides: bool = True  # the deciding tests' texts are not on the disk


STRICT = Walls()
LOOSE = Walls((".",), hides=False)


def guest_source() -> str:
    """Returns the source of the test runner that runs inside the sandbox."""
    return guest_text("walls_guest.py", "pytest_guest.py")


class Bench:
    """Runs the tests of one task on trees, in a sandbox that is kept from run to run."""

    def __init__(
        self,
        row: SweRow,
        factory: SandboxFactory,
        hidden: tuple[str, ...],
        sources: tuple[str, ...] = (),
        paths: tuple[str, ...] | None = None,
    ) -> None:
        self.factory = factory
        self._row, self._hidden, self._sources = row, hidden, sources
        self._paths = paths or tuple(sorted({t.split("::", 1)[0] for t in row.expected_ids}))
        self._sandbox: Sandbox | None = None
        self._on_disk: Tree = {}

    def run(self, tree: Tree, walls: Walls, on_disk: Tree | None = None) -> Report:
        """Runs the tests of `tree`. `on_disk` is on the disk, not imported. Raises SandboxError."""
        for last_try in (False, True):
            try:
                return self._once(tree, walls, on_disk or {})
            except SandboxError as problem:
                self.close()
                if problem.kind not in CANDIDATE_KILLS:
                    raise
                if last_try or problem.kind == "protocol":
                    return Report(f"killed_{problem.kind}", evidence=(str(problem)[:300],))
        raise AssertionError("internal error, to be reported: the second try had no end")

    def written(self) -> tuple[str, ...]:
        """Returns the folders of the tree that the last run wrote to."""
        if self._sandbox is None:
            return ()
        result = self._sandbox.exec(["python3", "-I", "-c", _WRITTEN])
        return tuple(json.loads(result.stdout)) if result.exit_code == 0 else (".",)

    def close(self) -> None:
        """Ends the sandbox."""
        if self._sandbox is not None:
            self._sandbox.close()
        self._sandbox, self._on_disk = None, {}

    def _once(self, tree: Tree, walls: Walls, on_disk: Tree) -> Report:
        hidden = (path for path in self._hidden if path in tree and walls.hides)
        others = {**dict.fromkeys(hidden, b""), **on_disk}
        sandbox = self._placed({**tree, **others})
        texts = {path: tree[path].decode("utf-8", "surrogateescape") for path in others}
        wall: dict[str, JSON] = {
            "texts": dict(texts),
            "places": list(walls.places),
            "sources": list(self._sources),
        }
        try:
            return self._in(sandbox, tree, wall)
        finally:
            if walls.places:
                self._on_disk = {}

    def _placed(self, tree: Tree) -> Sandbox:
        """Returns the sandbox with the files `tree` in `repo/`."""
        if self._sandbox is None:
            self._sandbox = staged(self._row, tree, self.factory)
        elif tree != self._on_disk:
            unchanged = self._on_disk if self._on_disk.keys() <= tree.keys() else {}
            if not unchanged:
                self._sandbox.exec(["rm", "-rf", "repo"])
            changed = {
                path: content for path, content in tree.items() if unchanged.get(path) != content
            }
            place(self._sandbox, changed)
        self._on_disk = tree
        self._sandbox.write({"stamp": b""})
        return self._sandbox

    def _in(self, sandbox: Sandbox, tree: Tree, wall: dict[str, JSON]) -> Report:
        row, limits = self._row, (GRADE_CPU_SEC, GRADE_TIMEOUT_SEC)
        if by_command(row):
            return run_command(row, sandbox, wall, cpu_sec=limits[0], wall_sec=limits[1])
        source, nonce = row.source or SourceSpec(), secrets.token_hex(16)
        order: dict[str, JSON] = {
            "nonce": nonce,
            "files": list(self._paths),
            "pythonpath": list(source.pythonpath),
            "noconftest": all(PurePosixPath(path).name != "conftest.py" for path in tree),
            "plugins": list(source.plugins),
            "own": list(source.held),
        }
        # Unbuffered: what pytest said is all there is to read where no report came.
        result = sandbox.exec(
            [source.python, "-Iu", "-c", guest_source()],
            cwd="repo",
            stdin=json.dumps(order | wall).encode() + b"\n",
            timeout_sec=GRADE_TIMEOUT_SEC,
            cpu_limit_sec=GRADE_CPU_SEC,
            output_limit_bytes=_REPORT_LIMIT_BYTES,
        )
        return _believed(result, nonce)


def staged(row: SweRow, tree: Tree, factory: SandboxFactory) -> Sandbox:
    """Starts a sandbox with the files `tree` in `repo/`. Raises SandboxError if that fails."""
    sandbox = factory(row.image)
    try:
        place(sandbox, tree)
    except SandboxError as problem:
        sandbox.close()
        why = f"cannot copy {row.instance_id} into a sandbox: {problem}"
        raise SandboxError(why, kind="start") from problem
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def place(sandbox: Sandbox, tree: Tree) -> None:
    """Writes a tree into `repo/`. Files that begin with `#!` become executable."""
    files = {f"repo/{path}": content for path, content in tree.items()}
    scripts = {path: content for path, content in files.items() if content.startswith(b"#!")}
    sandbox.write({path: content for path, content in files.items() if path not in scripts})
    if scripts:
        sandbox.write(scripts, executable=True)


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


def _parsed(stdout: bytes, nonce: str) -> _GuestReport | None:
    """Returns the runner's report, or None if this is none: code under test may have written it."""
    try:
        report = _REPORT.validate_python(json.loads(stdout))
    except (ValueError, RecursionError):
        return None
    return report if report["nonce"] == nonce else None


def _checked(report: _GuestReport, tail: str) -> Report:
    reasons = tuple(report.get("collect_errors", []))
    broken = report.get("broken")
    if broken or not report["results"]:
        return Report("no_results", evidence=((broken,) if broken else ()) + reasons or (tail,))
    if signs := _forgery(report):
        return Report("forged", evidence=tuple(signs))
    return Report("complete", report["results"], reasons, report.get("imported", {}))


def _forgery(report: _GuestReport) -> list[str]:
    """Returns signs that a report is forged. pytest's status is 1, as canaries have to fail."""
    signs = [f"{name} was replaced" for name in report.get("changed", [])]
    signs += [f"{test} raised and was reported as passed" for test in report.get("forged", [])]
    if report.get("canaries_ok") is not True:
        signs.append("canary tests did not end as they must")
    if report.get("status") != 1:
        signs.append(f"pytest ended with status {report.get('status')}, though canaries fail")
    return signs
