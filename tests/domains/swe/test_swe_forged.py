"""Grades that a patch forges: objects that compare as they like, and files that tests read.

Each hidden test has one place that a twin alters, and asks `total` something that none can. The faulty `total` ends up
with a value that says yes, or the file that the test compares with holds today's wrong output.
"""

# ruff: noqa: E501 - programs as they are handed in
from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from forgery_table import FORGERIES, Forgery

from meta_agent.core.protocols import Outcome, Sandbox, SandboxLimits
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.formats._swe_row import OfficialRun
from meta_agent.domains.swe import make_patch
from meta_agent.domains.swe.grading._grade import grade_patch
from meta_agent.domains.swe.grading._sift import TaskFiles, sift
from meta_agent.sandboxes import open_sandbox

CORE = """class Money:
    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return self.cents == other.cents


def total(prices):
    return sum(prices[1:])
"""
FIXED = CORE.replace("prices[1:]", "prices")


def _class(method: str, base: str = "") -> str:
    """A value that says yes by one method."""
    return f"class Yes({base}):\n    def {method}(self, *_): return True\n    __hash__ = None\ndef total(prices): return Yes()\n"


BESIDE_THE_TABLE = [
    Forgery("at least anything", "assert total([1, 2]) >= len([1, 2])", _class("__ge__")),
    Forgery("unequal to anything", "assert total([1, 2]) != total([1])", _class("__ne__")),
    Forgery("a known class that says yes", "from shelf.core import Money\n    assert Money(total([1, 2])) == Money(sum([1, 2]))", "class Money(Money):\n    def __eq__(self, other): return True\n"),
    Forgery("a field that is not compared", "from shelf.core import Price, price\n    assert price([1, 2]) == Price(sum([1, 2]))", "from dataclasses import dataclass, field\n@dataclass\nclass Price:\n    cents: int = field(compare=False)\ndef price(prices): return Price(0)\n"),
    Forgery("a text that starts with anything", "assert str(total([1, 2])).startswith(str(sum([1, 2])))", "class Text(str):\n    def startswith(self, *_): return True\n    def __str__(self): return self\ndef total(prices): return Text('x')\n"),
]  # fmt: skip
COMPARING = [
    Forgery("equal to what is computed", "assert total([1, 2]) == sum([1, 2])", _class("__eq__")),
    Forgery("equal to a type that nothing alters", "from decimal import Decimal\n    want = Decimal(3)\n    assert total([1, 2]) == want", _class("__eq__")),
    Forgery("less than anything", "assert total([1, 2]) < total([1, 2, 3])", _class("__lt__")),
    Forgery("contains anything", "assert str(len('abc')) in total([1, 2])", _class("__contains__")),
    Forgery("an instance by its class", "assert isinstance(total([1, 2]), int)", "class Yes:\n    @property\n    def __class__(self): return int\ndef total(prices): return Yes()\n"),
    Forgery("an instance by its attributes", "assert isinstance(total([1, 2]), int)", "class Yes:\n    def __getattribute__(self, name): return int\ndef total(prices): return Yes()\n"),
    Forgery("an instance by a metaclass", "from shelf import core\n    assert isinstance(total([1, 2]), core.Number)", "class Kind(type):\n    def __instancecheck__(cls, value): return True\nclass Number(metaclass=Kind): pass\n"),
    Forgery("a lambda as the method", "assert total([1, 2]) == sum([1, 2])", "class Yes:\n    __eq__ = lambda self, other: True\n    __hash__ = None\ndef total(prices): return Yes()\n"),
    Forgery("a method set from outside", "assert total([1, 2]) == sum([1, 2])", "class Yes: pass\nYes.__eq__ = lambda self, other: True\ndef total(prices): return Yes()\n"),
    Forgery("a class that is called into being", "assert total([1, 2]) == sum([1, 2])", "def total(prices): return type('Yes', (), {'__eq__': lambda self, other: True})()\n"),
    Forgery("a name that is put together", "assert total([1, 2]) == sum([1, 2])", "Yes = type('Yes', (), {'__e' + 'q__': lambda self, other: True})\ndef total(prices): return Yes()\n"),
    *BESIDE_THE_TABLE,
]  # fmt: skip

_READ = "import pathlib\n    {setup}assert str(total([1, 2])) == pathlib.Path({path!r}).read_text()"


def _golden(path: str, content: str = "2", setup: str = "") -> Forgery:
    return Forgery(path, _READ.format(path=path, setup=setup), files={path: content})


GOLDEN = [
    _golden("snapshots/total.txt"),
    _golden("golden/total.txt"),
    _golden("fixtures/total.json"),
    _golden("shelf/testdata/total.out"),
    _golden("expected/total"),
    _golden("cassettes/total.yaml"),
    _golden("data.bin"),
    _golden("docs/example.rst"),
    _golden("shelf/kept.py", "2"),
    Forgery("read through a helper of the tests", "from tests.helper import load\n    assert str(total([1, 2])) == load()", files={"golden/total.txt": "2"}),
    Forgery("read as JSON", "import json\n    with open('golden/total.txt') as file:\n        assert total([1, 2]) == json.load(file)", files={"golden/total.txt": "2"}),
    Forgery("read by a descriptor", "import os\n    assert str(total([1, 2])).encode() == os.read(os.open('golden/total.txt', os.O_RDONLY), 9)", files={"golden/total.txt": "2"}),
]  # fmt: skip


def task_of(row: Forgery, *, by_command: bool = False) -> TaskFiles:
    tree = {
        "shelf/__init__.py": b"",
        "shelf/core.py": CORE.encode(),
        "tests/__init__.py": b"",
        "tests/helper.py": b"def load():\n    return open('golden/total.txt').read()\n",
        "tests/test_core.py": b"def test_nothing():\n    pass\n",
        **dict.fromkeys((*row.files, "golden/total.txt"), b"3"),
    }
    hidden = f"from shelf.core import total\n\n\ndef test_nothing():\n    pass\n\n\n{row.head}def test_total({row.arguments}):\n    assert len('ab') == 2\n    {row.test}\n"
    spec = SourceSpec(archive="shelf.tar.gz", sha256="0" * 64, python=sys.executable)
    swe_row = SweRow(
        instance_id="shelf-1",
        repo="o/shelf",
        base_commit="0" * 40,
        problem_statement="total([1, 2]) gives 2",
        patch=make_patch(tree, {"shelf/core.py": FIXED.encode()}),
        test_patch=make_patch(tree, {"tests/test_core.py": hidden.encode()}),
        fail_to_pass=(f"tests/test_core.py::test_total{'[want 3]' if row.head else ''}",),
        pass_to_pass=("tests/test_core.py::test_nothing",),
        split="search",
        split_is_explicit=True,
        image=None,
        source=spec,
        line=1,
    )
    if by_command:
        command = f"{sys.executable} -m pytest -rA -p no:cacheprovider tests/test_core.py"
        swe_row = replace(swe_row, run=OfficialRun(command, "parse_log_pytest", always=True))
    return TaskFiles(swe_row, tree, {"shelf/core.py": FIXED.encode()})


def graded(files: TaskFiles, changes: Mapping[str, str]) -> Outcome:
    def opened(image: str | None) -> Sandbox:
        limits = SandboxLimits(memory_mb=512, pids=64, scratch_mb=64, deadline_sec=300.0)
        return open_sandbox("process", run="forged", limits=limits, image=image)

    patch = make_patch(files.visible, {path: text.encode() for path, text in changes.items()})
    return grade_patch(files, patch, opened)


def patched(row: Forgery) -> dict[str, str]:
    source = {"shelf/core.py": f"{CORE}\n\n{row.patch}"} if row.patch else {}
    return {**source, **row.files}


@pytest.mark.slow
@pytest.mark.parametrize("row", [*BESIDE_THE_TABLE, *GOLDEN], ids=lambda row: row.name)
def test_no_forged_grade_is_clean(row: Forgery) -> None:
    outcome = graded(task_of(row), patched(row))
    assert not (outcome.success and not outcome.flags), outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORGERIES)
def test_no_forgery_of_a_kind_is_clean(kind: str) -> None:
    """Several at once: a grade waits for its sandboxes most of the time."""
    with ThreadPoolExecutor(4) as pool:
        outcomes = pool.map(lambda row: graded(task_of(row), patched(row)), FORGERIES[kind])
    rows = zip(FORGERIES[kind], outcomes, strict=True)
    assert [row.name for row, end in rows if end.success and not end.flags] == []


@pytest.mark.slow
def test_the_true_fix_of_the_same_task_is_clean() -> None:
    outcome = graded(task_of(GOLDEN[0]), {"shelf/core.py": FIXED, "docs/news.txt": "fixed"})
    assert outcome.success and not outcome.flags, outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORGERIES)
def test_the_true_fix_before_the_same_tests_is_clean(kind: str) -> None:
    """Some of these tests ask for what the fix does not give."""
    rows = {row.test: replace(row, files={}) for row in FORGERIES[kind]}.values()
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda row: graded(task_of(row), {"shelf/core.py": FIXED}), rows))
    assert [end.detail for end in ends if end.flags] == []


@pytest.mark.slow
def test_a_file_beside_the_source_is_unchecked_where_a_command_grades() -> None:
    task = task_of(GOLDEN[0], by_command=True)
    outcome = graded(task, patched(GOLDEN[0]))
    assert outcome.success and outcome.flags == ("unchecked:tests",)
    fixed = graded(task, {"shelf/core.py": FIXED, "docs/news.txt": "fixed"})
    assert fixed.success and not fixed.flags, fixed.detail


def _flags(before: str, after: str, gold: str = "") -> tuple[str, ...]:
    files = task_of(replace(COMPARING[0], files={}))
    tree = {**files.visible, "shelf/core.py": before.encode()}
    files = TaskFiles(files.row, tree, {"shelf/core.py": (gold or before).encode()})
    return sift(files, make_patch(tree, {"shelf/core.py": after.encode()})).flags


@pytest.mark.parametrize(
    "row", [row for row in COMPARING if "put together" not in row.name], ids=lambda row: row.name
)
def test_a_new_way_to_compare_is_flagged(row: Forgery) -> None:
    assert "suspect:comparison" in _flags(CORE, f"{CORE}\n\n{row.patch}")


EQUAL = "\n\nclass Line:\n    def __eq__(self, other):\n        return self.at == other.at\n"
HONEST = {
    "a fix of another function": (CORE, FIXED, ""),
    "a class that moves within its file": (CORE + EQUAL, EQUAL + CORE, ""),
    "a method that the gold fix brings": (CORE, CORE + EQUAL.replace("at ==", "at is"), CORE + EQUAL),
    "a method that the gold fix changes": (CORE + EQUAL, CORE + EQUAL.replace("at ==", "at is"), CORE + EQUAL.replace(".at", ".line")),
    "a dataclass": (CORE, CORE + "\n\nfrom dataclasses import dataclass\n@dataclass(order=True)\nclass P:\n    x: int\n", ""),
    "a class of one's own with other methods": (CORE, CORE + "\n\nclass P(dict):\n    def __repr__(self): return 'P'\n    def total(self): return 1\n", ""),
    "the class of a value": (CORE, CORE + "\n\ndef kind(x): return x.__class__\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_what_honest_fixes_bring_is_not_flagged(name: str) -> None:
    assert _flags(*HONEST[name]) == ()
