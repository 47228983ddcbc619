"""Runs a package's tests and scripts in sandboxes.

Promises: every run gets a fresh sandbox. A run has results only if it ended by itself and its
report came back. If the code used up its memory or processor time, the result says so. Any other
failure of a sandbox raises `SandboxError`.

Does not cover: which results are stable. The callers repeat runs and compare.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import PurePosixPath

from meta_agent.core.errors import CANDIDATE_KILLS, ConfigError, SandboxError
from meta_agent.core.protocols import JSON, ExecResult, Sandbox
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.swe import Report, SandboxFactory, Tree
from meta_agent.domains.swe._domain import _LIMITS as TASK_LIMITS
from meta_agent.domains.swe.grading._runs import GRADE_CPU_SEC, LOOSE, guest_source, staged
from meta_agent.domains.swe.grading._runs import Bench as Runs
from meta_agent.domains.tasks._package import Package

# A fault that loops for ever costs the whole limit, so a few tests get less time than a suite.
FEW_TESTS_CPU_SEC = 20
_WALL_SEC = 300.0
_REPORT_LIMIT_BYTES = 32 << 20
_TESTS_RUN_ON = frozenset(sys.stdlib_module_names | {"pytest", "_pytest", "pluggy"})
_LIST_IMAGE = (
    "import importlib.util, json, sys\n"
    "from importlib.metadata import distributions\n"
    "names = [name for name in json.loads(sys.argv[1]) if importlib.util.find_spec(name)]\n"
    "entries = [(e.group, d.metadata['Name']) for d in distributions() for e in d.entry_points]\n"
    "plugins = sorted({name for group, name in entries if group == 'pytest11'})\n"
    "print(json.dumps([names, importlib.util.find_spec('pytest') is not None, plugins]))"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """How a test failed: exception, message, lines reached in the test's file, and parameters."""

    kind: str  # the exception's name
    message: str
    lines: tuple[int, ...]  # of the test's own file, outermost call first
    parameters: Mapping[str, str]  # the test's, as Python expressions


@dataclass(frozen=True, slots=True)
class Probe:
    """The results of one run of tests in detail. `problem` says why there are none, or is empty."""

    problem: str = ""
    results: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    calls: Mapping[str, frozenset[tuple[str, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs a package's tests in sandboxes, on any version of its source files."""

    package: Package
    factory: SandboxFactory
    image: str | None = None
    python: str = "python3"
    plugins: tuple[str, ...] = ()  # pytest plugins of the image, by distribution name
    in_image: tuple[str, ...] = ()  # top-level names of the package that the image holds too

    def checked(self) -> Bench:
        """Returns a copy that knows which modules of the package the image contains as well.

        Raises `ConfigError` if the image lacks pytest or a plugin, or if pytest needs the package.
        """
        sandbox = self.factory(self.image)
        try:
            names = json.dumps(sorted(self.package.top_names))
            result = sandbox.exec([self.python, "-I", "-c", _LIST_IMAGE, names])
        finally:
            sandbox.close()
        try:
            in_image, has_pytest, plugins = json.loads(result.stdout)
        except ValueError as error:
            tail = result.stderr[-200:].decode("utf-8", "replace")
            raise ConfigError(
                f"the Python {self.python} does not run in the sandbox: {tail}",
                hint="--python PATH names the interpreter of the image that has pytest",
            ) from error
        if not has_pytest:
            raise ConfigError(
                f"the Python {self.python} in the sandbox has no pytest",
                hint="build one with it: meta-agent sandbox build --requirements FILE --tag TAG",
            )
        if common := _TESTS_RUN_ON.intersection(in_image):
            raise ConfigError(f"pytest needs {min(common)} itself, so choose another package")
        if missing := set(map(_plain, self.plugins)) - set(map(_plain, plugins)):
            raise ConfigError(
                f"the image lacks plugins of pytest: {', '.join(sorted(missing))}",
                hint=f"the image has {', '.join(plugins) or 'none'}; build another with "
                "meta-agent sandbox build --requirements FILE --tag TAG",
            )
        return replace(self, in_image=tuple(sorted(in_image)))

    @property
    def warning(self) -> str:
        """Returns a warning if the container image contains the package as well, else ""."""
        if not self.in_image:
            return ""
        names = ", ".join(self.in_image)
        return (
            f"the image holds {names} too: tests and grading take the task's own; "
            "an agent can read the other. To prevent that, give an image of dependencies alone"
        )

    def suite(self, tree: Tree, tests: Sequence[str] = (), changed: Sequence[str] = ()) -> Report:
        """Runs test files (default: all) as the grader does, which watches the files `changed`."""
        paths = tuple(tests or self.package.tests)
        sources = tuple(sorted(changed))
        return run_tests(self.row(), tree, self.factory, paths, sources)

    def probe(
        self,
        tree: Tree,
        *,
        tests: Sequence[str] = (),
        only: Sequence[str] | None = None,
        trace: Sequence[str] = (),
    ) -> Probe:
        """Runs test files, or `only` some tests of them, and says how each test failed.

        `trace` names source files. The calls of their functions are listed for each test.
        """
        paths = list(tests or self.package.tests)
        if only is not None:
            paths = sorted({test.split("::", 1)[0] for test in only})
        order = {
            "nonce": secrets.token_hex(16),
            "runner": guest_source(),
            "files": paths,
            "pythonpath": list(self.package.pythonpath),
            "noconftest": not any(PurePosixPath(path).name == "conftest.py" for path in tree),
            "plugins": list(self.plugins),
            "own": list(self.in_image),
            "only": None if only is None else list(only),
            "trace": list(trace),
        }
        guest = resources.files("meta_agent.domains.tasks").joinpath("probe_guest.py")
        cpu_sec = GRADE_CPU_SEC if only is None else FEW_TESTS_CPU_SEC
        result = self._exec(tree, guest.read_text("utf-8"), order, cpu_sec)
        return Probe(result) if isinstance(result, str) else _probe(result, order["nonce"])

    def _exec(
        self, tree: Tree, program: str, order: dict[str, JSON], cpu_sec: int
    ) -> ExecResult | str:
        """Runs our own program beside a tree. Returns how the sandbox was killed, if it was."""
        sandbox = staged(self.row(), tree, self.factory)
        try:
            return sandbox.exec(
                [self.python, "-Iu", "-c", program],
                cwd="repo",
                stdin=json.dumps(order).encode() + b"\n",
                timeout_sec=_WALL_SEC,
                cpu_limit_sec=cpu_sec,
                output_limit_bytes=_REPORT_LIMIT_BYTES,
            )
        except SandboxError as problem:
            if problem.kind not in CANDIDATE_KILLS:
                raise
            return f"killed_{problem.kind}"
        finally:
            sandbox.close()

    def row(self) -> SweRow:
        """Returns a task row that says where and how tests run, and is empty otherwise."""
        source = SourceSpec(
            archive="-",
            pythonpath=self.package.pythonpath,
            python=self.python,
            plugins=self.plugins,
            held=self.in_image,
        )
        name = self.package.name
        return SweRow(
            *(name, name, "-", "", None, "", (), (), "train", False, self.image, source), line=0
        )


def run_tests(
    row: SweRow,
    tree: Tree,
    factory: SandboxFactory,
    paths: tuple[str, ...],
    sources: tuple[str, ...] = (),
) -> Report:
    """Runs the test files `paths` of a tree in a fresh sandbox.

    `sources` are changed files, whose skips count as failures. Nothing is hidden and all can be
    written. Raises SandboxError if the sandbox fails and the code under test is not the cause.
    """
    with closing(Runs(row, factory, (), sources, paths)) as runs:
        return runs.run(tree, LOOSE)


def sandboxes(backend: str, run: str) -> SandboxFactory:
    """Returns a function that starts sandboxes with `TASK_LIMITS`, labelled with the name `run`."""
    from meta_agent.sandboxes import open_sandbox

    def factory(image: str | None) -> Sandbox:
        return open_sandbox(backend, run=run, limits=TASK_LIMITS, image=image)

    return factory


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _probe(result: ExecResult, nonce: object) -> Probe:
    if result.timed_out or result.oom:
        return Probe("timeout" if result.timed_out else "killed_oom")
    try:
        report = json.loads(result.stdout)
    except (ValueError, RecursionError):
        return Probe(f"no_results (exit {result.exit_code})")
    if not isinstance(report, dict) or report.get("nonce") != nonce:
        return Probe("no_results")
    if report["broken"] or report["collect_errors"] or not report["results"]:
        reasons = [report["broken"], *report["collect_errors"]]
        return Probe("not_collected: " + "; ".join(str(text) for text in reasons if text)[:300])
    calls = report["calls"].items()
    return Probe(
        "",
        report["results"],
        {
            test: Failure(how["kind"], how["message"], tuple(how["lines"]), how["parameters"])
            for test, how in report["failures"].items()
        },
        {test: frozenset((path, line) for path, line in pairs) for test, pairs in calls},
    )
