"""`meta-agent skills`: each command on a real library, in a process of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from meta_agent.cli._skills import _names_here
from tests.cli.conftest import Runner
from tests.cli.conftest import meta_agent as meta_agent
from tests.cli.test_light import light

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
    listed = meta_agent("skills", "show", "--json", cwd=tmp_path).document["skills"]
    assert len(listed) == 13 and {row["origin"] for row in listed} == {"meta-agent"}
    library = ("--library", "theirs")
    shown = meta_agent("skills", "show", "demo", *library, cwd=tmp_path).stdout
    assert "quarantine" in shown and "# Demo" in shown
    (tmp_path / "project").mkdir()
    into = ("--into", "project")
    done = meta_agent("skills", "export", "revive", *into, "--json", cwd=tmp_path).document
    assert len(done["written"]) == 2 and all(Path(folder).is_dir() for folder in done["written"])
    (theirs / "demo/SKILL.md").write_text(GOOD + "[x](scripts/none.py)\n")
    refused = meta_agent("skills", "export", "demo", *into, *library, cwd=tmp_path)
    assert refused.returncode == 2 and "leads nowhere" in refused.stderr


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("show", "zebra"), "are named 'zebra'"),
        (("export", "--into", "nowhere"), "/nowhere"),
        (("trial", "read-a-leak", "--seeds", "1"), "names none"),
    ],
)
def test_bad_input_is_a_sentence(
    tmp_path: Path, meta_agent: Runner, argv: tuple[str, ...], words: str
) -> None:
    done = meta_agent("skills", *argv, cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "meta-agent-workspace").exists()


def test_looking_needs_no_heavy_package(tmp_path: Path) -> None:
    for argv in (["show"], ["show", "read-a-leak"]):
        ran = light("skills", *argv, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr


def test_a_shell_is_told_skills_that_exist_now(tmp_path: Path, theirs: Path) -> None:
    params = {"library": theirs, "workspace": tmp_path / "none"}
    told = SimpleNamespace(params=params)
    assert _names_here(cast("typer.Context", told), "de") == ["demo"]
    params["library"] = cast("Path", None)
    (tmp_path / "none").write_text("no workspace")
    assert _names_here(cast("typer.Context", told), "de") == []
