"""Copies skills into the folders of a project that coding agents read.

Promises: only valid skills are copied, and whole. An older copy of our own skill is replaced, and a
folder of somebody else is never overwritten. A quarantined skill is copied only if it is named.
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
"""The folders of a project in which coding agents look for skills."""


def export(library: SkillLibrary, project: Path, names: Sequence[str]) -> list[Path]:
    """Copies skills into a project's `.agents/skills` and `.claude/skills`; returns the new paths.

    Without `names` it copies all but unproven ones. Raises ConfigError if a skill is invalid.
    """
    if not project.is_dir():
        raise ConfigError(f"there is no folder {project}", hint="give a folder: --into PROJECT")
    chosen = [library.skill(name) for name in names]
    chosen = chosen or [entry for entry in library.all() if entry.status != "quarantine"]
    return [copy_skill(skill, project / place) for skill in chosen for place in CLIENTS]


def copy_skill(skill: Skill, place: Path) -> Path:
    """Copies a skill into a folder of skills and returns the copy's path.

    Raises ConfigError if the skill is invalid, or if the folder has another skill of its name.
    """
    if problems := validate(skill.path):
        raise ConfigError(
            f"the skill {skill.name} is not copied, because it is invalid: {problems[0]}",
            hint=f"correct it; meta-agent skills {skill.name} lists all its problems",
        )
    target = place / skill.name
    if target.is_symlink() or (target.exists() and not _ours(skill, target)):
        raise ConfigError(
            f"{target} exists and was not made by this library",
            hint="move that folder away, then run the command again",
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
    """Returns True if a folder is an older copy of this skill: only our skills name their kind."""
    before = load_skill(target)
    return before is not None and before.name == skill.name and bool(before.get("kind"))
