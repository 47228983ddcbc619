from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.history import HarnessRepo

from .attacker import SEED, Attacker


@pytest.fixture
def repo(tmp_path: Path) -> HarnessRepo:
    return HarnessRepo.create(tmp_path / "harness_repo", SEED, "feat: seed harness\n")


@pytest.fixture
def attacker(tmp_path: Path, repo: HarnessRepo) -> Attacker:
    return Attacker(tmp_path / "attacker", repo)
