"""`SkillLibrary`: a folder of skills that several workspaces may share.

Promises: a skill appears whole or not at all (built beside its place, flushed, renamed); the same
lesson is stored once, whoever learned it; reading never fails because of one bad folder.

Does not cover: locking. Two writers of one lesson write equal folders, and the second finds the
first's; two writers of different lessons do not meet.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

from meta_agent.durable import sync, write_whole
from meta_agent.errors import ConfigError
from meta_agent.skills._format import UnreadableError, parse, render
from meta_agent.skills._rank import rank
from meta_agent.skills._skill import PREFIX, Skill, SkillDraft
from meta_agent.skills._validate import MAX_NAME, valid_name, validate

_DIGEST_CHARS = 8
_MAX_BYTES = 256 << 10


class SkillLibrary:
    """The skills below one folder, ours and other people's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Skill]:
        """Every readable skill, by name."""
        return [skill for folder in self._folders() if (skill := load_skill(folder)) is not None]

    def find(self, domain: str, factor: str | None, text: str, limit: int = 3) -> list[Skill]:
        """The skills that speak to a situation, best first; the same library, the same answer."""
        return rank(self.all(), domain, factor, text)[:limit]

    def write(self, draft: SkillDraft) -> Skill:
        """Stores a lesson, or returns the skill that holds it already."""
        known = next((skill for skill in self.all() if skill.digest == draft.digest), None)
        return known or self._store(draft)

    def _folders(self) -> list[Path]:
        if not self.path.is_dir():
            return []
        return sorted(p for p in self.path.iterdir() if p.is_dir() and not p.name.startswith("."))

    def _store(self, draft: SkillDraft) -> Skill:
        name = _name(draft)
        self.path.mkdir(parents=True, exist_ok=True)
        building = self.path / f".{name}.{uuid4().hex}"
        try:
            _write_folder(building / name, draft, name)
            _require_valid(building / name)
            _move_into_place(building / name, self.path / name)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        return _loaded(self.path / name)


def load_skill(folder: Path) -> Skill | None:
    """Reads a skill leniently; None where there is nothing usable."""
    file = folder / "SKILL.md"
    try:
        if file.stat().st_size > _MAX_BYTES:
            return None
        parsed = parse(file.read_text("utf-8", errors="replace"))
    except (OSError, UnreadableError):
        return None
    metadata = parsed.fields.get("metadata", {})
    pairs = metadata.items() if isinstance(metadata, dict) else ()
    return Skill(
        name=str(parsed.fields.get("name") or folder.name),
        description=str(parsed.fields["description"]),
        body=parsed.body,
        path=folder,
        metadata={str(key): str(value) for key, value in pairs},
        warnings=(*parsed.warnings, *validate(folder)),
    )


def _loaded(folder: Path) -> Skill:
    skill = load_skill(folder)
    if skill is None:
        raise ConfigError(f"{folder} holds no readable skill")
    return skill


def _name(draft: SkillDraft) -> str:
    tail = "-" + draft.digest[:_DIGEST_CHARS]
    name = draft.title[: MAX_NAME - len(tail)].strip("-") + tail
    if not valid_name(name):
        raise ValueError(f"{draft.title!r} does not make a skill name")
    return name


def _write_folder(folder: Path, draft: SkillDraft, name: str) -> None:
    metadata = {PREFIX + key: value for key, value in draft.metadata.items()}
    metadata[PREFIX + "digest"] = draft.digest
    files = {"SKILL.md": render(name, draft.description, metadata, draft.body), **draft.files}
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text)
        if path.startswith("scripts/"):
            target.chmod(0o755)


def _require_valid(folder: Path) -> None:
    problems = validate(folder)
    if problems:
        raise ValueError(f"the skill {folder.name} is not valid: {'; '.join(problems)}")


def _move_into_place(built: Path, final: Path) -> None:
    if final.is_dir() and load_skill(final) is not None:
        return
    shutil.rmtree(final, ignore_errors=True)
    built.replace(final)
    sync(final.parent)
