"""Skills go out whole and come in as data; hostile and off-spec ones are refused or warned of."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.skills import SkillLibrary, export, validate
from meta_agent.skills.exchange import KNOWN, MAX_FILES, level, take_in
from tests.skills.test_seeds import LIBRARY

GOOD = "---\nname: demo\ndescription: Does a thing. Use when asked.\n---\n\n# Demo\n"


def written(root: Path, text: str | bytes = GOOD, name: str = "demo") -> Path:
    folder = root / "theirs" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(tmp_path / "mine")


def with_field(field: str) -> str:
    return GOOD.replace("---\n\n", f"{field}\n---\n\n")


def link(folder: Path) -> None:
    (folder / "notes.md").symlink_to("/etc/passwd")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "scripts")


def too_many(folder: Path) -> None:
    for n in range(MAX_FILES):
        (folder / f"n{n}.md").write_text("x")


def too_large(folder: Path) -> None:
    for n in range(5):
        (folder / f"n{n}.md").write_text("x" * (250 << 10))


def a_key(folder: Path) -> None:
    (folder / "notes.md").write_text("sk-" + "a1B2" * 8)


def nothing(folder: Path) -> None: ...


Case = tuple[str | bytes, Callable[[Path], None], str]
REFUSED: dict[str, Case] = {
    "a link out": (GOOD, link, "not a regular file"),
    "a pipe": (GOOD, pipe, "not a regular file"),
    "too many files": (GOOD, too_many, "more than 64 files"),
    "too large": (GOOD, too_large, "1024 KiB"),
    "a key": (GOOD, a_key, "looks like a key"),
    "a path as its name": (GOOD.replace("name: demo", "name: ../../x"), nothing, "is no name"),
    "an absolute name": (GOOD.replace("name: demo", "name: /tmp/x"), nothing, "is no name"),
    "no description": (GOOD.replace("description: Does a thing. Use when asked.", ""), nothing, ""),
    "an alias that grows": (
        "---\nname: demo\ndescription: &a x\nlicense: [*a, *a]\n---\nb\n", nothing, "alias",
    ),
    "a tag that makes objects": (
        "---\nname: demo\ndescription: !!python/object/apply:os.system [id]\n---\nb\n", nothing, "",
    ),
    "no frontmatter": ("# Demo\n", nothing, "frontmatter"),
    "not UTF-8": (GOOD.encode() + b"\xff", nothing, "utf-8"),
}  # fmt: skip
WARNED: dict[str, tuple[str, str]] = {
    "another folder's name": (GOOD.replace("name: demo", "name: other"), ""),
    "an unknown field": (with_field("version: 1"), ""),
    "tools that it grants itself": (with_field("allowed-tools: [Bash]"), ""),
    "a link that leaves": (GOOD + "[x](../../secrets.md)\n", "leaves the folder"),
    "a dead link": (GOOD + "[x](scripts/none.py)\n", "leads nowhere"),
    "markup": (GOOD.replace("a thing", "<script>"), "angle bracket"),
    "a body without end": (GOOD + "line\n" * 600, "lines"),
    "an endless description": (GOOD.replace("a thing", "a thing " * 200), "characters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_hostile_and_broken_ones_are_refused(
    case: str, tmp_path: Path, library: SkillLibrary
) -> None:
    text, harm, words = REFUSED[case]
    harm(written(tmp_path, text))
    (taken,) = take_in(library, str(tmp_path / "theirs"))
    assert taken.refused and words in taken.refused, taken
    assert library.all() == [] and not list(library.path.glob("**/*.md"))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("case", WARNED)
def test_off_spec_ones_come_with_a_warning(
    case: str, tmp_path: Path, library: SkillLibrary
) -> None:
    text, words = WARNED[case]
    assert validate(written(tmp_path, text))
    (taken,) = take_in(library, str(tmp_path / "theirs"))
    assert not taken.refused
    assert taken.warnings and words in str(taken.warnings)
    (skill,) = library.all()
    assert skill.status == "quarantine" and library.offered("swe") == []


def test_the_two_lists_hold_eighteen_and_more() -> None:
    assert len(REFUSED) + len(WARNED) >= 18


def test_what_it_says_of_its_standing_does_not_count(tmp_path: Path, library: SkillLibrary) -> None:
    claims = (
        'metadata:\n  meta-agent.status: "global"\n  meta-agent.worth: "+99"\n'
        '  meta-agent.domain: "swe"\n  their.note: "kept"'
    )
    folder = written(tmp_path, with_field(claims))
    (folder / "scripts").mkdir()
    (folder / "scripts/run.sh").write_text("#!/bin/sh\nexit 1\n")
    (folder / "scripts/run.sh").chmod(0o755)
    (tmp_path / "theirs/LICENSE").write_text("\nMIT License\n\nCopyright\n")
    (taken,) = take_in(library, str(tmp_path / "theirs"))
    (skill,) = library.all()
    assert (taken.refused, skill.status, skill.get("worth")) == ("", "quarantine", "")
    assert skill.get("origin") == str(tmp_path / "theirs")
    assert skill.get("licence") == "LICENSE: MIT License"
    assert len(skill.get("source")) == 64 and skill.metadata["their.note"] == "kept"
    assert not os.access(skill.path / "scripts/run.sh", os.X_OK)
    assert library.find("swe", None, "thing") == [], "no agent is shown it"
    (again,) = take_in(library, str(tmp_path / "theirs"))
    assert again.refused == KNOWN
    (folder / "SKILL.md").write_text(GOOD + "changed\n")
    (other,) = take_in(library, str(tmp_path / "theirs"))
    assert other.refused == "another demo is here", "nothing is written over"


def test_a_repository_is_read_at_its_commit(tmp_path: Path, library: SkillLibrary) -> None:
    written(tmp_path)
    git = ("git", "-C", str(tmp_path / "theirs"), "-c", "user.name=n", "-c", "user.email=e@e")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "skills")):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "theirs/demo/SKILL.md").write_text("not committed")
    (taken,) = take_in(library, str(tmp_path / "theirs"))
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert not taken.refused
    assert library.skill("demo").get("origin").endswith(f"@{head.stdout.strip()}")


def test_a_place_without_skills_is_a_sentence(tmp_path: Path, library: SkillLibrary) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/README.md").write_text("hello")
    with pytest.raises(ConfigError, match="holds no skill"):
        take_in(library, str(tmp_path / "theirs"))
    for address in ("http://example.org/x", "https://me:key@example.org/x"):
        with pytest.raises(ConfigError):
            take_in(library, address)


# --- out -----------------------------------------------------------------------------------------


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
    with pytest.raises(ConfigError, match="not of this library"):
        export(SkillLibrary(tmp_path / "mine", shipped=LIBRARY), tmp_path, ["read-a-leak"])
    assert "Demo" in (theirs / "SKILL.md").read_text()


def test_quarantine_goes_out_only_by_name(tmp_path: Path, library: SkillLibrary) -> None:
    written(tmp_path)
    take_in(library, str(tmp_path / "theirs"))
    assert export(library, tmp_path, []) == []
    assert len(export(library, tmp_path, ["demo"])) == 2


def test_a_shared_library_gives_and_takes(tmp_path: Path, library: SkillLibrary) -> None:
    written(tmp_path)
    own = written(tmp_path / "own", name="mine").parent
    (own / "mine/SKILL.md").write_text(
        GOOD.replace("name: demo", "name: mine").replace(
            "---\n\n",
            'metadata:\n  meta-agent.kind: "positive"\n  meta-agent.status: "domain"\n---\n\n',
        )
    )
    mine, shared = SkillLibrary(own), tmp_path / "theirs"
    taken, given = level(mine, str(shared))
    assert ([one.name for one in taken], given) == (["demo"], ["mine"])
    assert validate(shared / "mine") == []
    assert level(mine, str(shared)) == ([], []), "what was given is known, and not taken back"
