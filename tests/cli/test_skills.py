"""`meta-agent skills`: each command on a real library."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from meta_agent.cli._skills import _names_here
from tests.cli._command import Runner
from tests.cli._command import meta_agent as meta_agent

GOOD = "---\nname: demo\ndescription: Does a thing. Use when asked.\n---\n\n# Demo\n"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs/demo"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(GOOD)
    return folder.parent


def test_from_an_empty_folder_to_a_skill_in_a_project(
    tmp_path: Path, theirs: Path, meta_agent: Runner
) -> None:
    listed = meta_agent("skills", "--json", cwd=tmp_path).document["skills"]
    assert len(listed) == 13 and {row["origin"] for row in listed} == {"meta-agent"}
    library = ("--library", "theirs")
    shown = meta_agent("skills", "demo", *library, cwd=tmp_path).stdout
    assert "quarantine" in shown and "# Demo" in shown
    (tmp_path / "project").mkdir()
    into = ("--into", "project")
    done = meta_agent("skills", "revive", *into, "--json", cwd=tmp_path).document
    assert len(done["written"]) == 2 and all(Path(folder).is_dir() for folder in done["written"])
    (theirs / "demo/SKILL.md").write_text(GOOD + "[x](scripts/none.py)\n")
    refused = meta_agent("skills", "demo", *into, *library, cwd=tmp_path)
    assert refused.returncode == 2 and "scripts/none.py" in refused.stderr


def test_a_shell_is_told_skills_that_exist_now(tmp_path: Path, theirs: Path) -> None:
    params = {"library": theirs, "workspace": tmp_path / "none"}
    told = SimpleNamespace(params=params)
    assert _names_here(cast("typer.Context", told), "de") == ["demo"]
    params["library"] = cast("Path", None)
    (tmp_path / "none").write_text("no workspace")
    assert _names_here(cast("typer.Context", told), "de") == []
