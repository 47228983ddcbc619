"""Skills go out whole; those that public validators refuse are named; what is unmarked stays in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.skills import SkillLibrary, export, validate

from ._kit import GOOD, INVALID, LIBRARY, folder_with


@pytest.mark.parametrize("case", ["another folder's name", "version field", "dead link", "a key"])
def test_what_validators_refuse_is_not_handed_on(case: str, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    library = SkillLibrary(folder_with(tmp_path / "theirs", INVALID[case]).parent)
    assert library.offered("swe") == []
    with pytest.raises(ConfigError):
        export(library, tmp_path, ["demo"])


def test_skills_go_where_coding_agents_look(tmp_path: Path) -> None:
    seeds = SkillLibrary(tmp_path / "mine", shipped=LIBRARY)
    export(seeds, tmp_path, ["read-a"])
    for client in (".agents", ".claude"):
        folder = tmp_path / client / "skills/read-a-leak"
        assert validate(folder) == [] and os.access(folder / "scripts/check.py", os.X_OK)
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "\nolder\n")
    assert len(export(seeds, tmp_path, [])) == 2 * len(seeds.all())
    assert "older" not in (folder / "SKILL.md").read_text(), "a copy of ours is renewed"


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / ".claude/skills/read-a-leak"
    theirs.mkdir(parents=True)
    (theirs / "SKILL.md").write_text(GOOD.replace("demo", "read-a-leak"))
    with pytest.raises(ConfigError):
        export(SkillLibrary(tmp_path / "mine", shipped=LIBRARY), tmp_path, ["read-a-leak"])
    assert "Demo" in (theirs / "SKILL.md").read_text()


def test_quarantine_goes_out_only_by_name(tmp_path: Path) -> None:
    library = SkillLibrary(folder_with(tmp_path, GOOD).parent)
    assert export(library, tmp_path, []) == []
    assert len(export(library, tmp_path, ["demo"])) == 2
