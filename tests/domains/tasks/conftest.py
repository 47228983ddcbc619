"""The small package, run by real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from _tasks_purse import FILES, Repository, bench_of, numbered_sandboxes, written

from meta_agent.domains.swe import SandboxFactory
from meta_agent.domains.tasks import Bench, read_package


@pytest.fixture
def factory() -> SandboxFactory:
    return numbered_sandboxes()


@pytest.fixture
def purse(tmp_path: Path) -> Path:
    """The package as a folder."""
    return written(tmp_path / "purse", FILES)


@pytest.fixture
def bench(factory: SandboxFactory) -> Callable[[Path], Bench]:
    return lambda path: bench_of(read_package(path), factory)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "purse")
