"""Makes a task file from a real package: its source, its test suite, planted faults.

    python examples/real-package/make_tasks.py tasks/

Downloads the source distribution of toolz by name with pip (which checks its hash before running
anything of it), plants each fault of `bugs.py`, runs the package's whole suite in the sandbox
before and after, and writes `toolz.jsonl` in SWE-bench's format beside the archive. FAIL_TO_PASS
and PASS_TO_PASS are what was measured. The tests of FAIL_TO_PASS are taken out of the tree that an
agent sees; `test_patch` brings them back for grading.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess  # noqa: TID251
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bug import Bug
from bugs import BUGS

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.core.protocols import Sandbox
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.swe import SandboxFactory, Tree, make_patch
from meta_agent.domains.swe import read_archive as read_source
from meta_agent.domains.tasks import run_tests

PACKAGE, VERSION = "toolz", "1.0.0"
ARCHIVE = f"{PACKAGE}-{VERSION}.tar.gz"
SHA256 = "2c86e3d9a04798ac556793bced838816296a2f085017664e4995cb40a1047a02"
TASK_FILE = "toolz.jsonl"
AT_ONCE = 2  # suites side by side


def main() -> None:
    """Downloads, plants, measures, writes."""
    arguments = _arguments()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    make(arguments.directory, _factory(arguments.sandbox), arguments.only)


def make(directory: Path, factory: SandboxFactory, only: int | None = None) -> Path:
    """Writes the archive and the task file into a directory; `only`: the first so many faults."""
    download(directory)
    sound = read_source(directory / ARCHIVE, SHA256)
    before = measured(sound, factory)
    if before != measured(sound, factory):
        raise SystemExit("the suite gives different results on the same source: it cannot decide")
    rows = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for row in pool.map(lambda bug: task(bug, sound, before, factory), BUGS[:only]):
            rows.append(row)
            print(_line(row), file=sys.stderr)
    path = directory / TASK_FILE
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(path)
    return path


def download(directory: Path) -> None:
    """Fetches the archive, unless it is there. pip refuses a file with another hash."""
    if (directory / ARCHIVE).exists():
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
        wanted.flush()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:"]
        command += ["--no-deps", "--dest", str(directory), "--require-hashes", "-r", wanted.name]
        subprocess.run(command, check=True)


def measured(tree: Tree, factory: SandboxFactory) -> dict[str, str]:
    """Every test of the suite with its status, from a fresh sandbox."""
    paths = tuple(sorted(path for path in tree if Path(path).name.startswith("test_")))
    report = run_tests(_bare_row(), tree, factory, paths)
    if report.verdict != "complete":
        raise SystemExit(f"the suite gave no results: {report.verdict}, {report.evidence}")
    return dict(report.results)


def task(
    bug: Bug, sound: Tree, before: Mapping[str, str], factory: SandboxFactory
) -> dict[str, Any]:
    """One row: the fault planted, its effect measured, the deciding tests hidden."""
    faulty = {**sound, bug.file: _planted(bug, sound[bug.file].decode()).encode()}
    after = measured(faulty, factory)
    passing = [test for test, status in before.items() if status == "PASSED"]
    fail_to_pass = [test for test in passing if after.get(test) != "PASSED"]
    if not fail_to_pass:
        raise SystemExit(f"{bug.name}: no test of the suite notices this fault")
    hidden = _without_tests(sound, fail_to_pass)
    return {
        "instance_id": f"{PACKAGE}-{bug.name}",
        "repo": f"py{PACKAGE}/{PACKAGE}",
        "base_commit": SHA256[:40],
        "version": VERSION,
        "split": bug.split,
        "problem_statement": bug.issue,
        "hints_text": "",
        "patch": make_patch(faulty, {bug.file: sound[bug.file]}),
        "test_patch": make_patch(hidden, {path: sound[path] for path in hidden}),
        "FAIL_TO_PASS": json.dumps(fail_to_pass),
        "PASS_TO_PASS": json.dumps([test for test in passing if test not in fail_to_pass]),
        "source": {
            "archive": ARCHIVE,
            "sha256": SHA256,
            "setup_patch": make_patch(sound, {**hidden, bug.file: faulty[bug.file]}),
        },
    }


def _planted(bug: Bug, source: str) -> str:
    if source.count(bug.sound) != 1:
        raise SystemExit(f"{bug.name}: the sound text stands {source.count(bug.sound)} times")
    return source.replace(bug.sound, bug.faulty)


def _without_tests(tree: Tree, tests: list[str]) -> dict[str, bytes]:
    """The test files that hold these tests, with the test functions taken out."""
    names: dict[str, set[str]] = {}
    for test in tests:
        path, name = test.split("[", 1)[0].split("::", 1)
        names.setdefault(path, set()).add(name.rsplit("::", 1)[-1])
    return {path: _without(tree[path].decode(), gone).encode() for path, gone in names.items()}


def _without(source: str, names: set[str]) -> str:
    lines = source.splitlines(keepends=True)
    for node in ast.walk(parse_python(source)):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            lines[first - 1 : node.end_lineno] = [""] * ((node.end_lineno or first) - first + 1)
    return "".join(lines)


def _bare_row() -> SweRow:
    """A row that only says where and how to run: the suite is measured before there is a task."""
    source = SourceSpec(archive=ARCHIVE, sha256=SHA256)
    return SweRow(
        PACKAGE, PACKAGE, VERSION, "", None, "", (), (), "train", False, None, source, line=0
    )


def _line(row: Mapping[str, Any]) -> str:
    failing, passing = (len(json.loads(row[name])) for name in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    return f"{row['instance_id']}: {failing} tests fail because of it, {passing} pass either way"


def _factory(backend: str) -> SandboxFactory:
    from meta_agent.sandboxes import open_sandbox

    def factory(image: str | None) -> Sandbox:
        return open_sandbox(backend, run="make-tasks", image=image)

    return factory


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path, help="where the archive and the task file go")
    parser.add_argument("--sandbox", default="docker", choices=["docker", "process"])
    parser.add_argument("--only", type=int, help="take the first so many faults")
    return parser.parse_args()


if __name__ == "__main__":
    main()
