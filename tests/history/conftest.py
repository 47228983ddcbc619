from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from meta_agent.core.history import HarnessRepo

from ._kit import SEED


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> HarnessRepo:
    """Made once and copied: every git process counts."""
    folder = tmp_path_factory.mktemp("seeded") / "harness_repo"
    return HarnessRepo.create(folder, SEED, "feat: seed harness\n")


@pytest.fixture
def repo(tmp_path: Path, seeded: HarnessRepo) -> HarnessRepo:
    return HarnessRepo(shutil.copytree(seeded.path, tmp_path / "harness_repo"))


@pytest.fixture
def base(repo: HarnessRepo) -> str:
    return repo.head()
