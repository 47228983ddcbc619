"""A small package with a planted bug, as a task file, graded by real processes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from meta_agent.domains.swe import RealSwe, load_tasks_domain, make_patch

CORE = '''"""Prices."""


def total(prices):
    """The sum of some prices."""
    return sum(prices[1:])


def cheapest(prices, default=None):
    return min(prices, default=default)
'''
FIXED = CORE.replace("prices[1:]", "prices")
VISIBLE_TESTS = """import pytest

from shelf.core import cheapest


class TestCheapest:
    def test_one(self):
        assert cheapest([3, 1, 2]) == 1


@pytest.mark.parametrize("default", [None, 0])
def test_default(default):
    assert cheapest([], default) is default


@pytest.mark.skip(reason="not here")
def test_skipped():
    raise AssertionError


@pytest.mark.xfail(reason="known")
def test_known():
    assert cheapest([1]) == 2
"""
HIDDEN_TESTS = (
    VISIBLE_TESTS
    + """

def test_total():
    from shelf.core import total

    assert total([1, 2, 3]) == 6
"""
)
TREE: dict[str, bytes] = {
    "shelf/__init__.py": b'"""A shelf."""\n',
    "shelf/core.py": CORE.encode(),
    "tests/test_core.py": VISIBLE_TESTS.encode(),
    "setup.cfg": b"[tool:pytest]\ntestpaths = tests\n",
}
PASS_TO_PASS = [
    "tests/test_core.py::TestCheapest::test_one",
    "tests/test_core.py::test_default[None]",
    "tests/test_core.py::test_default[0]",
    "tests/test_core.py::test_skipped",
    "tests/test_core.py::test_known",
]


def archive(tree: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    packed = gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0)  # the same bytes later
    with packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path, content in tree.items():
            member = tarfile.TarInfo(f"shelf-1.0/{path}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Shelf:
    """Writes the task file; every part can be changed before `load`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = dict(TREE)
        self.row: dict[str, Any] = {
            "instance_id": "shelf-1",
            "repo": "o/shelf",
            "base_commit": "0" * 40,
            "split": "search",
            "problem_statement": "total([1, 2, 3]) gives 5",
            "patch": self.patch({"shelf/core.py": FIXED}),
            "test_patch": self.patch({"tests/test_core.py": HIDDEN_TESTS}),
            "FAIL_TO_PASS": ["tests/test_core.py::test_total"],
            "PASS_TO_PASS": list(PASS_TO_PASS),
        }

    def patch(self, changes: Mapping[str, str | None]) -> str:
        return make_patch(
            self.tree, {k: None if v is None else v.encode() for k, v in changes.items()}
        )

    def write(self, *more: Mapping[str, Any], python: str = sys.executable) -> Path:
        content = archive(self.tree)
        (self.folder / "shelf.tar.gz").write_bytes(content)
        source = {
            "archive": "shelf.tar.gz",
            "sha256": hashlib.sha256(content).hexdigest(),
            "python": python,
        }
        rows = [{"source": source, **row} for row in (self.row, *more)]
        path = self.folder / "shelf.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def load(self, *more: Mapping[str, Any]) -> RealSwe:
        return load_tasks_domain(self.write(*more), sandbox="process")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@pytest.fixture
def domain(shelf: Shelf) -> RealSwe:
    return shelf.load()


@pytest.fixture
def core() -> Callable[[str], str]:
    """The file with the bug, with something appended: where a cheat hides."""
    return lambda extra: f"{CORE}\n{extra}\n"
