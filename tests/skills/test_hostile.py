"""Folders of skills that somebody else made: one bad skill is named, and the others are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.skills import SkillLibrary, export, validate

GOOD = "---\nname: good\ndescription: Says what to do.\n---\n\nDo it.\n"


def _skill(library: Path) -> Path:
    folder = library / "good"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(GOOD)
    return folder


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "SKILL.md")


def _link(folder: Path) -> None:
    (folder / "SKILL.md").symlink_to("/etc/hostname")


def _deep(folder: Path) -> None:
    head = "description: x\nmetadata: " + "[" * 20_000
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n\nDo it.\n")


def _many_keys(folder: Path) -> None:
    keys = "\n".join(f"key{n}: v" for n in range(15_000))
    (folder / "SKILL.md").write_text(f"---\n{keys}\n---\n\nDo it.\n")


@pytest.mark.parametrize("spoil", [_fifo, _link, _deep, _many_keys])
def test_a_bad_skill_is_named_and_left_out(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    _skill(tmp_path)
    (tmp_path / "bad").mkdir()
    spoil(tmp_path / "bad")
    library = SkillLibrary(tmp_path)
    assert [skill.name for skill in library.all()] == ["good"]
    assert set(library.unreadable()) == {"bad"}
    assert validate(tmp_path / "bad")


@pytest.mark.parametrize("kind", ["file", "folder", "fifo"])
def test_nothing_behind_a_link_is_exported(tmp_path: Path, kind: str) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("secret")
    folder = _skill(tmp_path / "library")
    if kind == "fifo":
        os.mkfifo(folder / "pipe")
    else:
        (folder / "ref.md").symlink_to(tmp_path / ("private/key" if kind == "file" else "private"))
    project = tmp_path / "project"
    project.mkdir()
    with pytest.raises(ConfigError, match="good"):
        export(SkillLibrary(tmp_path / "library"), project, ["good"])
    assert not list(project.rglob("*"))
