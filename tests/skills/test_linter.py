"""A second public validator, `skill-check` of the npm registry (`make skill-check`): no complaint.

The first is the specification's own library, `skills-ref`, beside our validator's tests.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.resources import resource_dir
from meta_agent.skills import SkillLibrary

from ._kit import INVALID, draft, folder_with

CHECKER = os.environ.get("SKILL_CHECK") or shutil.which("skill-check")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHECKER is None, reason="make skill-check (needs npm)"),
]


def complaints(folder: Path) -> tuple[int, list[Any]]:
    """How many skills it found below a folder, and all that it says of them."""
    argv = [str(CHECKER), "check", str(folder), "--no-security-scan", "--format", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    told = json.loads(done.stdout)
    return told["summary"]["skillCount"], told["diagnostics"]


def test_it_accepts_what_ships_and_what_a_run_writes(tmp_path: Path) -> None:
    shipped = resource_dir("skills_library")
    assert complaints(shipped) == (len(list(shipped.glob("*/SKILL.md"))), [])
    SkillLibrary(tmp_path).write(draft())
    assert complaints(tmp_path) == (1, [])


def test_it_refuses_what_is_none(tmp_path: Path) -> None:
    found, said = complaints(folder_with(tmp_path, INVALID["upper case"]))
    assert found == 1 and any(each["severity"] == "error" for each in said)
