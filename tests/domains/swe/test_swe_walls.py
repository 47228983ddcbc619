"""What code under test can neither read nor write, and what the tests of a task may need."""

# ruff: noqa: E501 - programs as they are handed in
from __future__ import annotations

from typing import Any

import pytest

from meta_agent.core.protocols import Sandbox
from meta_agent.domains.swe.grading._grade import grade_patch
from meta_agent.domains.swe.grading._runs import STRICT

pytestmark = pytest.mark.slow

CORE = "def total(prices):\n    return sum(prices[1:])\n\n\ndef load(path):\n    return open(path).read()\n"
FIXED = CORE.replace("prices[1:]", "prices")
ASKS = "from shelf.core import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
# name: what the hidden test file has more, which walls the task then needs
NEEDS = {
    "nothing": ("", STRICT),
    "a folder for temporary files": (
        "\n\ndef test_more(tmp_path):\n    (tmp_path / 'x').write_text('1')\n    assert total([3]) == 3\n",
        STRICT,
    ),
    "a folder of the tree": (
        "\n\ndef test_more():\n    open('tests/out/made', 'w').write('1')\n    assert total([3]) == 3\n",
        STRICT._replace(places=("tests/out",)),
    ),
    "its own text": (
        "\n\ndef test_more():\n    assert 'own text' in open(__file__).read()\n    assert total([3]) == 3\n",
        STRICT._replace(hides=False),
    ),
}


class Counting:
    def __init__(self, inner: Any) -> None:
        self.inner, self.opened = inner, 0

    def __call__(self, image: str | None) -> Sandbox:
        self.opened += 1
        sandbox: Sandbox = self.inner(image)
        return sandbox


def task(shelf: Any, more: str) -> Any:
    shelf.tree = {
        "shelf/__init__.py": b"",
        "shelf/core.py": CORE.encode(),
        "tests/test_core.py": b"def test_one():\n    pass\n",
        "tests/out/kept": b"",
        "golden.txt": b"3",
    }
    shelf.row["patch"] = shelf.patch({"shelf/core.py": FIXED})
    shelf.row["test_patch"] = shelf.patch({"tests/test_core.py": ASKS + more})
    names = ["test_total", *(["test_more"] if more else [])]
    shelf.row["FAIL_TO_PASS"] = [f"tests/test_core.py::{name}" for name in names]
    shelf.row["PASS_TO_PASS"] = []
    return shelf.load()


@pytest.mark.parametrize(("more", "walls"), NEEDS.values(), ids=NEEDS)
def test_a_true_fix_passes_behind_the_strictest_walls_that_its_tests_allow(
    shelf: Any, more: str, walls: Any
) -> None:
    domain = task(shelf, more)
    files, factory = domain.files("shelf-1"), Counting(domain._factory)
    news = {"shelf/core.py": FIXED + "\n", "docs/news.txt": "fixed"}  # so it has to pass twice
    outcome = grade_patch(files, shelf.patch(news), factory)
    assert (outcome.success, outcome.flags) == (True, ()), outcome.detail
    assert files.walls.get("walls", STRICT) == walls
    assert factory.opened == (1 if walls == STRICT else 2), "the second one is the reference's"
    again = Counting(domain._factory)
    assert not grade_patch(files, shelf.patch({"shelf/core.py": CORE + "\n"}), again).success
    assert again.opened == (2 if walls == STRICT else 1)


REACHES = {
    "reads the tests": "    raise ValueError(len(load('tests/test_core.py')))",
    "writes a file of the tree": "    open('golden.txt', 'w').write('2')\n    return 3",
    "makes a file in the tree": "    open('made.txt', 'w').write('2')\n    return 3",
    "takes a file of the tree away": "    import os\n    os.remove('golden.txt')\n    return 3",
    "moves a folder of the tree": "    import os\n    os.rename('tests/out', 'tests/gone')\n    return 3",
}


@pytest.mark.parametrize("body", REACHES.values(), ids=REACHES)
def test_code_under_test_reaches_neither_the_tests_nor_the_tree(shelf: Any, body: str) -> None:
    code = CORE.replace("    return sum(prices[1:])", body)
    outcome = task(shelf, "").regrade("shelf-1", {"patch": shelf.patch({"shelf/core.py": code})})
    assert (outcome.success, outcome.detail["verdict"]) == (False, "unresolved")
