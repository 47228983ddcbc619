"""Skills handed on: into the folders of a project that coding agents read.

Promises: only valid skills go out, and whole; an older copy of ours is renewed, and a folder of
somebody else's is never written over. What is in quarantine goes only by name.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from meta_agent.core.errors import ConfigError
from meta_agent.core.skills import Skill
from meta_agent.skills._library import SkillLibrary, load_skill
from meta_agent.skills._validate import validate

CLIENTS: Final = (".agents/skills", ".claude/skills")
"""Below a project, where coding agents look for skills."""


def export(library: SkillLibrary, project: Path, names: Sequence[str]) -> list[Path]:
    """Copies skills into both folders: those named, or all that are not in quarantine."""
    if not project.is_dir():
        raise ConfigError(f"there is no folder {project}", hint="--into PROJECT")
    chosen = [library.skill(name) for name in names]
    chosen = chosen or [entry for entry in library.all() if entry.status != "quarantine"]
    return [handed_on(skill, project / place) for skill in chosen for place in CLIENTS]


def handed_on(skill: Skill, place: Path) -> Path:
    """A copy of a skill in a folder of skills."""
    if problems := validate(skill.path):
        raise ConfigError(
            f"{skill.name} is not handed on: {problems[0]}",
            hint=f"meta-agent skills show {skill.name} lists all its problems",
        )
    target = place / skill.name
    if target.is_symlink() or (target.exists() and not _ours(skill, target)):
        raise ConfigError(
            f"{target} is there already, and not of this library", hint="move it away first"
        )
    place.mkdir(parents=True, exist_ok=True)
    building = place / f".{skill.name}.{uuid4().hex}"
    try:
        shutil.copytree(skill.path, building)
        shutil.rmtree(target, ignore_errors=True)
        building.replace(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return target


def _ours(skill: Skill, target: Path) -> bool:
    """Whether a folder is an older copy of this skill: only ours say of which kind they are."""
    before = load_skill(target)
    return before is not None and before.name == skill.name and bool(before.get("kind"))
