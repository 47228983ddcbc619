"""The scripted run of `_bench`, one per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger
from tests.steps._bench import Bench
from tests.steps._race import as_raced


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield Bench(tmp_path, ledger, monkeypatch)


@pytest.fixture
def raced(bench: Bench) -> Bench:
    return as_raced(bench)
