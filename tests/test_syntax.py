"""Parsing from several threads."""

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meta_agent.parsing.syntax import parse_python

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
def test_threads_do_not_get_into_each_others_trees() -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(lambda _: parse_python(SOURCE), range(12)))
    assert {len(tree.body) for tree in trees} == {len(ast.parse(SOURCE).body)}
