"""Runs a package's suite in sandboxes: by the grader's own runner, and by one that tells more.

Promises: every run gets a fresh sandbox; a run that ended by itself and whose report came back is
the only one with results; what the code did to its sandbox (memory, processor time) is a verdict,
what the machine did is a `SandboxError`.

Does not cover: which of these results are stable. The callers repeat.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import NamedTuple

from meta_agent.core.errors import ConfigError, SandboxError
from meta_agent.core.protocols import JSON, ExecResult, Sandbox
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.swe import Report, SandboxFactory, Tree, is_test_path, run_tests
from meta_agent.domains.swe._domain import _LIMITS as TASK_LIMITS
from meta_agent.domains.swe.grading._grade import GRADE_CPU_SEC, guest_source, staged
from meta_agent.domains.tasks._package import Package

# A fault that loops for ever is the dearest of all to measure, so a few tests get less time.
NEAR_CPU_SEC = 20
PROBE_CPU_SEC = GRADE_CPU_SEC
SCRIPT_CPU_SEC = 10
_PROBE_WALL_SEC = 300.0
_REPORT_LIMIT_BYTES = 32 << 20
_RUNS_ON = frozenset(sys.stdlib_module_names | {"pytest", "_pytest", "pluggy"})
_KILLS = frozenset({"oom", "died", "timeout"})
_FIND = (
    "import importlib.util, json, sys\n"
    "from importlib.metadata import distributions\n"
    "found = [n for n in json.loads(sys.argv[1]) if importlib.util.find_spec(n)]\n"
    "owned = [(e.group, d.metadata['Name']) for d in distributions() for e in d.entry_points]\n"
    "names = sorted({name for group, name in owned if group == 'pytest11'})\n"
    "print(json.dumps([found, importlib.util.find_spec('pytest') is not None, names]))"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """How one test failed."""

    kind: str  # the exception's name
    message: str
    lines: tuple[int, ...]  # of its own file, outermost first
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Probed:
    """One run of the telling runner. `problem` is empty where there are results."""

    problem: str = ""
    results: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    calls: Mapping[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()  # raced other threads, by a sleep or a connection
    given: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # parameters


class Said(NamedTuple):
    """What a script printed, and the error that ended it (no kind: none did)."""

    out: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Bench:
    """A package's suite, ready to run on any tree of it."""

    package: Package
    factory: SandboxFactory
    image: str | None = None
    python: str = "python3"
    plugins: tuple[str, ...] = ()  # of pytest in the image, by their distributions' names
    own: tuple[str, ...] = ()  # names of the package that the image holds too

    def checked(self) -> Bench:
        """The same, with what the image holds of the package. Refuses an image without pytest or a
        plugin, and a package that the tests themselves run on."""
        sandbox = self.factory(self.image)
        try:
            names = json.dumps(sorted(self.package.top_names))
            said = sandbox.exec([self.python, "-I", "-c", _FIND, names])
        finally:
            sandbox.close()
        try:
            found, has_pytest, plugins = json.loads(said.stdout)
        except ValueError as error:
            tail = said.stderr[-200:].decode("utf-8", "replace")
            raise ConfigError(f"{self.python} does not run in the sandbox: {tail}") from error
        if not has_pytest:
            raise ConfigError(
                f"{self.python} in the sandbox has no pytest",
                hint="build an image with it: meta-agent sandbox image --requirements FILE",
            )
        if mine := _RUNS_ON.intersection(found):
            raise ConfigError(f"tests run on {min(mine)}, so it cannot be what they test")
        self._check_plugins(plugins)
        return replace(self, own=tuple(sorted(found)))

    @property
    def held(self) -> str:
        """What is to be said where the image holds the package too; else nothing."""
        if not self.own:
            return ""
        return (
            f"the image holds {', '.join(self.own)} too: tests and grading take the task's own; an "
            "agent can read the other, so where that matters give an image of dependencies alone"
        )

    def _check_plugins(self, there: Sequence[str]) -> None:
        missing = {_plain(name) for name in self.plugins} - {_plain(name) for name in there}
        if missing:
            raise ConfigError(
                f"the image has no plugin of pytest from {', '.join(sorted(missing))}",
                hint=f"it has {', '.join(there) or 'none'}; more come by meta-agent sandbox image",
            )

    def suite(
        self, tree: Tree, tests: Sequence[str] | None = None, changed: Sequence[str] = ()
    ) -> Report:
        """The whole suite by the grader's runner, which watches `changed` as files of a patch."""
        paths = tuple(tests or self.package.tests)
        return run_tests(
            self.row(), tree, factory=self.factory, paths=paths, sources=tuple(sorted(changed))
        )

    def probe(
        self,
        tree: Tree,
        *,
        only: Sequence[str] | None = None,
        trace: Sequence[str] = (),
        tests: Sequence[str] | None = None,
    ) -> Probed:
        """The suite, or some tests of it, by the runner that tells more."""
        nonce = secrets.token_hex(16)
        paths = list(tests or self.package.tests)
        if only is not None:
            paths = sorted({test.split("::", 1)[0] for test in only})
        order = {
            "nonce": nonce,
            "runner": guest_source(),
            "files": paths,
            "pythonpath": list(self.package.pythonpath),
            "noconftest": not any(PurePosixPath(path).name == "conftest.py" for path in tree),
            "cpu_sec": PROBE_CPU_SEC if only is None else NEAR_CPU_SEC,
            "plugins": list(self.plugins),
            "own": list(self.own),
            "only": None if only is None else list(only),
            "trace": list(trace),
        }
        return self._probed(tree, json.dumps(order).encode() + b"\n", nonce)

    def said(self, tree: Tree, codes: Sequence[str]) -> list[Said]:
        """What scripts print where there is only the package, as its users have it."""
        users = {path: text for path, text in tree.items() if not is_test_path(path)}
        order = {
            "scripts": list(codes),
            "pythonpath": list(self.package.pythonpath),
            "cpu_sec": SCRIPT_CPU_SEC,
        }
        sandbox = staged(self.row(), users, self.factory)
        try:
            result = sandbox.exec(
                [self.python, "-I", "-c", _text("script_guest.py")],
                cwd="repo",
                stdin=json.dumps(order).encode() + b"\n",
                timeout_sec=_PROBE_WALL_SEC,
                output_limit_bytes=_REPORT_LIMIT_BYTES,
            )
        except SandboxError as problem:
            if problem.kind not in _KILLS:
                raise
            return []
        finally:
            sandbox.close()
        try:
            return [Said(*map(str, one)) for one in json.loads(result.stdout)]
        except (ValueError, TypeError):
            return []

    def row(self) -> SweRow:
        """A row that only says where and how to run."""
        source = SourceSpec(
            archive="-",
            pythonpath=self.package.pythonpath,
            python=self.python,
            plugins=self.plugins,
            own=self.own,
        )
        name = self.package.name
        return SweRow(
            *(name, name, "-", "", None, "", (), (), "train", False, self.image, source), line=0
        )

    def _probed(self, tree: Tree, order: bytes, nonce: str) -> Probed:
        sandbox = staged(self.row(), tree, self.factory)
        try:
            result = sandbox.exec(
                [self.python, "-Iu", "-c", _text("probe_guest.py")],
                cwd="repo",
                stdin=order,
                timeout_sec=_PROBE_WALL_SEC,
                output_limit_bytes=_REPORT_LIMIT_BYTES,
            )
        except SandboxError as problem:
            if problem.kind not in _KILLS:
                raise
            return Probed(f"killed_{problem.kind}")
        finally:
            sandbox.close()
        return _read(result, nonce)


def sandboxes(backend: str, run: str) -> SandboxFactory:
    """Sandboxes under the limits that grading has."""
    from meta_agent.sandboxes import open_sandbox

    def factory(image: str | None) -> Sandbox:
        return open_sandbox(backend, run=run, limits=TASK_LIMITS, image=image)

    return factory


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def _text(guest: str) -> str:
    return resources.files("meta_agent.domains.tasks").joinpath(guest).read_text("utf-8")


def _read(result: ExecResult, nonce: str) -> Probed:
    if result.timed_out or result.oom:
        return Probed("timeout" if result.timed_out else "killed_oom")
    try:
        report = json.loads(result.stdout)
    except (ValueError, RecursionError):
        return Probed(f"no_results (exit {result.exit_code})")
    if not isinstance(report, dict) or report.get("nonce") != nonce:
        return Probed("no_results")
    if report["broken"] or report["collect_errors"] or not report["results"]:
        reasons = [report["broken"], *report["collect_errors"]]
        return Probed("not_collected: " + "; ".join(str(one) for one in reasons if one)[:300])
    return Probed(
        "",
        {str(test): str(status) for test, status in report["results"].items()},
        {str(test): _failure(one) for test, one in report["failures"].items()},
        {
            str(test): frozenset((str(path), int(line)) for path, line in calls)
            for test, calls in report["calls"].items()
        },
        frozenset(map(str, report["waiting"])),
        {str(test): _texts(given) for test, given in report["given"].items()},
    )


def _texts(given: dict[str, JSON]) -> dict[str, str]:
    return {str(name): str(value) for name, value in given.items()}


def _failure(one: dict[str, JSON]) -> Failure:
    return Failure(
        str(one["kind"]),
        str(one["message"]),
        tuple(int(line) for line in one["lines"]),
        _texts(one["parameters"]),
    )
