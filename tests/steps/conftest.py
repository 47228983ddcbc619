"""The scripted run of `_bench`, one per test."""

import pytest

from tests.steps._bench import Bench
from tests.steps._bench import bench as bench
from tests.steps._race import as_raced


@pytest.fixture
def raced(bench: Bench) -> Bench:
    return as_raced(bench)
