"""Parsing from several threads."""

import ast
import gc
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import meta_agent
from meta_agent.core.parsing import syntax
from meta_agent.core.parsing.syntax import literal_value, parse_python

LIST = f"[{'(1, [2]), ' * 20}]"
SOURCE = Path(ast.__file__).read_text(encoding="utf-8")


@pytest.fixture
def switching() -> Iterator[None]:
    """The collector runs often and lets another thread in each time."""

    def let_in(_phase: str, _info: dict[str, int]) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(let_in)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(let_in)


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("other", [parse_python, literal_value])
def test_threads_do_not_get_into_each_others_trees(other: Callable[[str], object]) -> None:
    def both(_: int) -> int:
        for _ in range(40):
            other(LIST)
        return len(parse_python(SOURCE).body)

    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(both, range(12))} == {len(ast.parse(SOURCE).body)}


def test_nothing_parses_beside_the_lock() -> None:
    """A guest has a process of its own, with one thread."""
    package = Path(meta_agent.__file__).parent
    calls = re.compile(r"\bast\.(?:parse|literal_eval)\(|from ast import")
    paths = (path for path in package.rglob("*.py") if not path.name.endswith("_guest.py"))
    found = {path for path in paths if calls.search(path.read_text("utf-8"))}
    assert found == {Path(syntax.__file__)}


def test_an_assertion_only_tells_the_type_checker_what_is_not_none() -> None:
    """`python -O` drops assertions, so none of them checks anything that has to hold."""
    package = Path(meta_agent.__file__).parent
    others = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        if not path.name.endswith("_guest.py")  # the tests that a grading adds
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assert) and not ast.unparse(node.test).endswith(" is not None")
    ]
    assert others == []
