"""`meta-agent skills`: each command on a real library, in a process of its own."""

from __future__ import annotations

import json
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
    listed = meta_agent("skills", "list", "--json", cwd=tmp_path).document["skills"]
    assert len(listed) == 13 and {one["origin"] for one in listed} == {"meta-agent"}
    added = meta_agent("skills", "add", "theirs", "--json", cwd=tmp_path).document
    assert added["taken"][0]["name"] == "demo" and not added["taken"][0]["refused"]
    shown = meta_agent("skills", "show", "demo", cwd=tmp_path).stdout
    assert "quarantine" in shown and "none given: ask its author" in shown and "# Demo" in shown
    assert meta_agent("skills", "add", "theirs", cwd=tmp_path).returncode == 1
    (tmp_path / "project").mkdir()
    into = ("--into", "project")
    done = meta_agent("skills", "export", "revive", *into, "--json", cwd=tmp_path).document
    assert len(done["written"]) == 2 and all(Path(one).is_dir() for one in done["written"])
    folder = done["written"][0]
    assert meta_agent("skills", "validate", folder, cwd=tmp_path).returncode == 0
    (Path(folder) / "SKILL.md").write_text("nothing")
    told = meta_agent("skills", "validate", folder, cwd=tmp_path)
    assert told.returncode == 1 and "frontmatter" in told.stdout
    gone = meta_agent("skills", "retire", "demo", "--json", cwd=tmp_path).document
    assert Path(gone["moved_to"]).is_dir()
    lost = meta_agent("skills", "show", "demo", cwd=tmp_path)
    assert lost.returncode == 2 and len(lost.stderr.splitlines()) == 2


def test_rollouts_that_do_not_say_clear_nothing(tmp_path: Path, meta_agent: Runner) -> None:
    (tmp_path / "one.jsonl").write_text('{"prompt": "a", "completion": "b", "reward": 0.5}\n')
    given = ("skills", "search", "--rollouts", "one.jsonl")
    assert len(meta_agent(*given, "--json", cwd=tmp_path).document["not_looked_for"]) == 12
    assert "12 could not look" in meta_agent(*given, cwd=tmp_path).stdout


def test_rollouts_say_which_skill_is_wanted(tmp_path: Path, meta_agent: Runner) -> None:
    rows = [
        {"prompt": f"task {n % 6}", "completion": f"try {n}", "reward": 0.0, "outcome": False}
        for n in range(24)
    ]
    file = tmp_path / "dead.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = meta_agent("skills", "search", "--rollouts", "dead.jsonl", "--json", cwd=tmp_path)
    first = done.document["found"][0]
    assert first["shows"] and first["name"] in ("revive-dead-groups", "fit-the-curriculum")
    text = meta_agent("skills", "search", "--rollouts", "dead.jsonl", cwd=tmp_path).stdout
    assert "shows  signal.dead_group_ratio 1" in text and "meta-agent skills show" in text


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("search",), "nothing to look for"),
        (("show", "zebra"), "no skill 'zebra'"),
        (("retire", "read-a-leak"), "is shipped with meta-agent"),
        (("add", "nowhere"), "there is no folder nowhere"),
        (("export", "--into", "nowhere"), "/nowhere"),
        (("trial", "read-a-leak", "--seeds", "1"), "names none"),
        (("sync", "http://example.org/x"), "only https:// addresses"),
    ],
)
def test_bad_input_is_a_sentence(
    tmp_path: Path, meta_agent: Runner, argv: tuple[str, ...], words: str
) -> None:
    done = meta_agent("skills", *argv, cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "meta-agent-workspace").exists()


def test_looking_needs_no_heavy_package(tmp_path: Path) -> None:
    for argv in (["list"], ["search", "leak", "--json"], ["show", "read-a-leak"], ["validate"]):
        ran = light("skills", *argv, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr


def test_a_shell_is_told_skills_that_exist_now(tmp_path: Path, theirs: Path) -> None:
    params = {"library": theirs, "workspace": tmp_path / "none"}
    told = SimpleNamespace(params=params)
    assert _names_here(cast("typer.Context", told), "de") == ["demo"]
    params["library"] = cast("Path", None)
    (tmp_path / "none").write_text("no workspace")
    assert _names_here(cast("typer.Context", told), "de") == []
