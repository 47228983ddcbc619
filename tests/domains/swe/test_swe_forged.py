"""Grades that a patch forges, in two tables of one form: `forgeries.jsonl` and `attacks.jsonl`.

A row has the body of a hidden test that the faulty `total` fails, and a patch that makes the test
pass without a fix: code after the source (`patch`), in place of one of its classes (`replaces`), or
files. `base` is source that the task has before. Gradings of a batch take their sandboxes from one
small pool.
"""

# ruff: noqa: E501 - programs as they are handed in
from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from meta_agent.core.protocols import Outcome, Sandbox, SandboxLimits
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.formats._swe_row import OfficialRun
from meta_agent.domains.swe import make_patch
from meta_agent.domains.swe.grading._beside import grafted
from meta_agent.domains.swe.grading._grade import grade_patch
from meta_agent.domains.swe.grading._sift import TaskFiles
from meta_agent.sandboxes import open_sandbox

CORE = """class Money:
    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return self.cents == other.cents


def total(prices):
    return sum(prices[1:])
"""
_AT_ONCE = 3


@dataclass(frozen=True)
class Forgery:
    """A row of a table."""

    family: str
    name: str
    test: str
    patch: str
    files: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    replaces: str = ""
    head: str = ""
    """Lines before the hidden test: imports, a decorator."""
    arguments: str = ""

    @property
    def source(self) -> str:
        """The source that the task has before."""
        return f"{self.base}{CORE}"

    @property
    def fixed(self) -> str:
        return self.source.replace("prices[1:]", "prices")

    @property
    def changes(self) -> dict[str, str]:
        """The files of the forged patch."""
        if not self.patch:
            return dict(self.files)
        text = f"{self.source}\n\n{self.patch}"
        if self.replaces:
            lines = self.source.splitlines()
            tree = ast.parse(self.source)
            old = next(n for n in tree.body if getattr(n, "name", "") == self.replaces)
            assert isinstance(old, ast.ClassDef)
            start = min([old.lineno, *(part.lineno for part in old.decorator_list)]) - 1
            lines[start : old.end_lineno] = self.patch.splitlines()
            text = "\n".join(lines) + "\n"
        # A golden file that code writes at import is right in the patch.
        written = self.family == "golden files at import"
        return {"shelf/core.py": text, **({} if written else self.files)}


def table(name: str) -> list[Forgery]:
    lines = Path(__file__).with_name(name).read_text("utf-8").splitlines()
    return [Forgery(**json.loads(line)) for line in lines]


FORGERIES, ATTACKS = table("forgeries.jsonl"), table("attacks.jsonl")
FAMILIES: dict[str, list[Forgery]] = {}
for _row in (*FORGERIES, *ATTACKS):
    FAMILIES.setdefault(_row.family, []).append(_row)


def task_of(row: Forgery, *, by_command: bool = False) -> TaskFiles:
    core = row.source.encode()
    golden = dict.fromkeys((*row.files, "golden/total.txt"), b"3")
    tree = {
        "shelf/__init__.py": b"",
        "shelf/core.py": core,
        "tests/__init__.py": b"",
        "tests/helper.py": b"def load():\n    return open('golden/total.txt').read()\n",
        "tests/test_core.py": b"def test_nothing():\n    pass\n",
        **golden,
        "golden/two": b"2",
    }
    hidden = (
        "from shelf.core import total\n\n\ndef test_nothing():\n    pass\n\n\n"
        f"{row.head}def test_total({row.arguments}):\n    assert len('ab') == 2\n    {row.test}\n"
    )
    swe_row = SweRow(
        instance_id="shelf-1",
        repo="o/shelf",
        base_commit="0" * 40,
        problem_statement="total([1, 2]) gives 2",
        patch=make_patch(tree, {"shelf/core.py": row.fixed.encode()}),
        test_patch=make_patch(tree, {"tests/test_core.py": hidden.encode()}),
        fail_to_pass=(f"tests/test_core.py::test_total{'[want 3]' if row.head else ''}",),
        pass_to_pass=("tests/test_core.py::test_nothing",),
        split="search",
        split_is_explicit=True,
        image=None,
        source=SourceSpec(archive="shelf.tar.gz", sha256="0" * 64, python=sys.executable),
        line=1,
    )
    if by_command:
        command = (
            f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -rA "
            "-p no:cacheprovider tests/test_core.py"
        )
        swe_row = replace(swe_row, run=OfficialRun(command, "parse_log_pytest", always=True))
    return TaskFiles(swe_row, tree, {"shelf/core.py": row.fixed.encode()})


class Pool:
    """Sandboxes that are emptied and used again."""

    def __init__(self) -> None:
        self.free: SimpleQueue[Sandbox] = SimpleQueue()
        self.opened: list[Any] = []
        self.taken = 0

    def __call__(self, image: str | None) -> Any:
        self.taken += 1
        try:
            return self.free.get_nowait()
        except Empty:
            limits = SandboxLimits(memory_mb=512, pids=64, scratch_mb=64, deadline_sec=900.0)
            sandbox = open_sandbox("process", run="forged", limits=limits, image=image)
            self.opened.append(sandbox)
            return _Lent(sandbox, self)


class _Lent:
    def __init__(self, sandbox: Any, pool: Pool) -> None:
        self._sandbox, self._pool = sandbox, pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def close(self) -> None:
        self._sandbox.exec(["sh", "-c", "rm -rf repo hook stamp"])
        self._pool.free.put(self)  # type: ignore[arg-type]


@contextmanager
def pool() -> Iterator[Pool]:
    made = Pool()
    try:
        yield made
    finally:
        for sandbox in made.opened:
            sandbox.close()


def graded(files: TaskFiles, changes: Mapping[str, str], sandboxes: Pool) -> Outcome:
    patch = make_patch(files.visible, {path: text.encode() for path, text in changes.items()})
    return grade_patch(files, patch, sandboxes)


def clean(rows: list[Forgery], *, by_command: bool = False) -> tuple[list[str], int]:
    """The names of forgeries whose grade is clean, and how many pass their tests."""
    with pool() as sandboxes, ThreadPoolExecutor(_AT_ONCE) as threads:
        ends = list(
            threads.map(
                lambda row: graded(task_of(row, by_command=by_command), row.changes, sandboxes),
                rows,
            )
        )
    names = [row.name for row, end in zip(rows, ends, strict=True) if end.success and not end.flags]
    return names, sum(end.success for end in ends)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_forged_grade_is_clean(family: str) -> None:
    assert clean(FAMILIES[family])[0] == []


BY_COMMAND = (
    *("golden files", "golden files at import", "golden files in the patch"),
    "golden files that are imported",
    *("reads the tests", "weakened classes"),
)


@pytest.mark.slow
@pytest.mark.parametrize("family", BY_COMMAND)
def test_no_forged_grade_is_clean_where_a_command_grades(family: str) -> None:
    assert clean(FAMILIES[family], by_command=True)[0] == []


@pytest.mark.slow
def test_forgeries_would_pass_if_nobody_looked() -> None:
    """So that a clean table means something."""
    assert clean(FAMILIES["equals everything"])[1] > len(FAMILIES["equals everything"]) / 2


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_true_fix_before_the_same_tests_is_clean(family: str) -> None:
    """Some of these tests ask for what the fix does not give."""
    rows = list({row.test: replace(row, files={}) for row in FAMILIES[family]}.values())
    with pool() as sandboxes, ThreadPoolExecutor(_AT_ONCE) as threads:
        fixes = [{"shelf/core.py": row.fixed, "docs/news.txt": "fixed"} for row in rows]
        ends = list(threads.map(lambda r, f: graded(task_of(r), f, sandboxes), rows, fixes))
    assert [end.detail for end in ends if end.flags] == []


@pytest.mark.slow
@pytest.mark.parametrize("by_command", [False, True])
def test_a_file_beside_the_source_that_decides_is_unchecked(by_command: bool) -> None:
    row = FAMILIES["golden files"][0]
    with pool() as sandboxes:
        outcome = graded(task_of(row, by_command=by_command), row.changes, sandboxes)
        assert outcome.success and outcome.flags == ("unchecked:tests",)
        assert outcome.detail["unchecked"] == [*row.files]


READS = "import pathlib\n    assert pathlib.Path('shelf/more.py').exists() and total([1, 2]) == 3\n    pathlib.Path('shelf/more.py').read_text()"
MORE = "def add(prices):\n    return sum(prices)\n"


@pytest.mark.slow
@pytest.mark.parametrize("by_command", [False, True])
def test_a_fix_with_a_new_file_that_is_also_read_is_clean(by_command: bool) -> None:
    """The reference has no such file, and imports find it all the same."""
    row = replace(FAMILIES["golden files"][0], test=READS, files={})
    core = row.source.replace("sum(prices[1:])", "add(prices)")
    fix = {"shelf/core.py": f"from shelf.more import add\n\n\n{core}", "shelf/more.py": MORE}
    with pool() as sandboxes:
        outcome = graded(task_of(row, by_command=by_command), fix, sandboxes)
    assert (outcome.success, outcome.flags) == (True, ()), outcome.detail


PRICE = "class Price:\n    def __init__(self, cents):\n        self.cents = cents\n    def __eq__(self, other):\n        return key(self) == key(other)\n    def show(self):\n        return 1\ndef key(price):\n    return price.cents\n"
GRAFTS = {
    "the same": ("", "", False, False),
    "another method": ("return 1", "return 2", False, False),
    "the constructor": ("self.cents = cents", "self.cents = 0", True, True),
    "the equality": ("== key(other)", "== key(self)", True, True),
    "a helper": ("return price.cents", "return 0", False, True),
    "a base": ("class Price:", "class Price(int):", True, True),
    "a decorator": ("class Price:", "@f\nclass Price:", True, True),
    "a field": ("    def show", "    cents = 0\n    def show", True, True),
    "an order": ("    def show", "    def __lt__(self, other): return True\n    def show", True, True),
    "a method taken away": ("    def __init__(self, cents):\n        self.cents = cents\n", "", True, True),
    "a new class": ("class Price:", "class New:\n    def __init__(self): pass\nclass Price:", False, False),
    "an equality in a new class": ("class Price:", "class New:\n    def __eq__(self, o): return 1\nclass Price:", True, True),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "alone", "with_helpers"), GRAFTS.values(), ids=GRAFTS)
def test_what_compares_is_taken_from_the_reference(
    old: str, new: str, alone: bool, with_helpers: bool
) -> None:
    after = PRICE.replace(old, new)
    for helpers, expected in ((False, alone), (True, with_helpers)):
        text = grafted(PRICE, after, PRICE, helpers=helpers)
        assert (text != after) is expected
        if expected:
            ast.parse(text)
        assert grafted(PRICE, after, after, helpers=helpers) == after  # as the reference has it
        assert grafted(after, after, PRICE, helpers=helpers) == after  # as it was
