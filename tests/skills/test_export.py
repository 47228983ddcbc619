"""Skills go out whole; those that public validators refuse are named; what is unmarked stays in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.skills import SkillLibrary, export, validate
from tests.skills.test_seeds import LIBRARY

GOOD = "---\nname: demo\ndescription: Does a thing. Use when asked.\n---\n\n# Demo\n"


def written(root: Path, text: str | bytes = GOOD, name: str = "demo") -> Path:
    folder = root / "theirs" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


OFF_SPEC: dict[str, tuple[str, str]] = {
    "another folder's name": (GOOD.replace("name: demo", "name: other"), "not the folder's name"),
    "an unknown field": (GOOD.replace("---\n\n", "version: 1\n---\n\n"), "unknown field"),
    "a link that leaves": (GOOD + "[x](../../secrets.md)\n", "leaves the folder"),
    "a dead link": (GOOD + "[x](scripts/none.py)\n", "leads nowhere"),
    "markup": (GOOD.replace("a thing", "<script>"), "angle bracket"),
    "a body without end": (GOOD + "line\n" * 600, "lines"),
    "an endless description": (GOOD.replace("a thing", "a thing " * 200), "characters"),
    "an alias that grows": ("---\nname: demo\ndescription: &a x\nlicense: [*a]\n---\nb\n", "alias"),
    "a key": (GOOD + "sk-" + "a1B2" * 8, "looks like a key"),
}


@pytest.mark.parametrize("case", OFF_SPEC)
def test_what_validators_refuse_is_named_and_not_handed_on(case: str, tmp_path: Path) -> None:
    text, words = OFF_SPEC[case]
    folder = written(tmp_path, text)
    assert words in str(validate(folder))
    library = SkillLibrary(folder.parent)
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
    with pytest.raises(ConfigError, match="not made by this library"):
        export(SkillLibrary(tmp_path / "mine", shipped=LIBRARY), tmp_path, ["read-a-leak"])
    assert "Demo" in (theirs / "SKILL.md").read_text()


def test_quarantine_goes_out_only_by_name(tmp_path: Path) -> None:
    library = SkillLibrary(written(tmp_path).parent)
    assert export(library, tmp_path, []) == []
    assert len(export(library, tmp_path, ["demo"])) == 2
