"""`SkillLibrary`: a folder of skills that several workspaces may share.

Promises: a skill appears whole or not at all (built beside its place, flushed, renamed). The same
lesson is stored once, whichever run learned it. Reading never fails because of a single bad folder.
Not covered: locking. Two writers of the same lesson write equal folders, and the second writer
keeps the first folder. Writers of different lessons write different folders.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from meta_agent.core.durable import sync, write_whole
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.core.skills import PREFIX, Skill, SkillDraft
from meta_agent.skills._distil import CHECK, PATCH, distil
from meta_agent.skills._format import UnreadableError, parse, read_bytes, render
from meta_agent.skills._retrieve import in_scope, near_duplicate, rank
from meta_agent.skills._validate import MAX_NAME, valid_name, validate

RETIRED = ".retired"
_DIGEST_CHARS = 8
MOST_SHOWN = 3
"""The largest number of skills in a prompt."""
AGAIN, SEEN = "references/again", "## Seen again"
OTHER_FIELDS = ("license", "compatibility", "allowed-tools")


class SkillLibrary:
    """The skills in a folder, of any origin, together with those that ship with meta-agent."""

    distil = staticmethod(distil)

    def __init__(self, path: Path, shipped: Path | None = None) -> None:
        self.path, self._shipped = path, shipped

    def all(self) -> list[Skill]:
        """Returns all readable skills, sorted by folder.

        A skill in the folder replaces the shipped one of its name. Retired ones are left out.
        """
        shipped = _skills_in(self._shipped) if self._shipped is not None else ()
        not_retired = (
            skill for skill in shipped if not (self.path / RETIRED / skill.path.name).exists()
        )
        by_folder = {skill.path.name: skill for skill in (*not_retired, *_skills_in(self.path))}
        return [by_folder[name] for name in sorted(by_folder)]

    def unreadable(self) -> dict[str, str]:
        """Returns why a folder holds no usable skill, by the folder's name."""
        reasons: dict[str, str] = {}
        for folder in _folders(self.path):
            try:
                read_skill(folder)
            except UnreadableError as error:
                reasons[folder.name] = str(error)
        return reasons

    def offered(self, domain: str) -> list[Skill]:
        """Returns the skills (lessons) that a run on `domain` may use: its own and general ones."""
        return [skill for skill in self.all() if in_scope(skill, domain)]

    def skill(self, name: str) -> Skill:
        """Returns the only skill whose name is or begins with `name`, or raises ConfigError."""
        skills = self.all()
        fitting = [skill for skill in skills if skill.name == name]
        fitting = fitting or [skill for skill in skills if name and skill.name.startswith(name)]
        if len(fitting) == 1:
            return fitting[0]
        near = ", ".join(skill.name for skill in fitting or skills)[:300]
        raise ConfigError(
            f"{len(fitting) or 'no'} skills in {self.path} are named {name!r}"
            + (f": {near}" if near else ""),
            hint="give the name of one skill; meta-agent skills lists them",
        )

    def find(
        self,
        domain: str,
        factor: str | None,
        text: str,
        limit: int = MOST_SHOWN,
        evidence: JSON = None,
    ) -> list[Skill]:
        """Returns at most `limit` skills that a run on `domain` may use, best match first.

        Skills whose metric is beyond its limit in `evidence` lead; then `factor` and `text` count.
        """
        return rank(self.all(), domain, factor, text, evidence)[:limit]

    def write(self, draft: SkillDraft) -> Skill:
        """Stores a lesson as a skill and returns the skill, or the present one with the same edit.

        The outcome of nearly the same lesson is added to its skill. Raises ValueError if invalid.
        """
        skills = self.all()
        same_edit = (
            skill for skill in skills if draft.digest in (skill.digest, *skill.get("also").split())
        )
        same_lesson = (
            skill
            for skill in skills
            if skill.path.parent == self.path and near_duplicate(draft, skill)
        )
        if (same := next(same_edit, None)) is not None:
            return same
        if (like := next(same_lesson, None)) is not None:
            return self._merged(like, draft)
        return self._store(draft)

    def _merged(self, skill: Skill, draft: SkillDraft) -> Skill:
        """Adds another edit's outcome to a skill with the same lesson, and returns the skill."""
        at = f"{AGAIN}/{draft.digest[:_DIGEST_CHARS]}"
        for name, text in draft.files.items():
            if name != CHECK:
                target = skill.path / at / name.rpartition("/")[2]
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, text)
        outcome = f"{draft.metadata.get('candidate', 'elsewhere')}: {draft.metadata.get('verdict')}"
        outcome += f", {draft.metadata.get('delta') or 'no effect stated'}"
        line = f"- {outcome}: [numbers]({at}/measured.md), [edit]({at}/{PATCH})\n"
        head = "" if SEEN in skill.body else f"\n{SEEN}\n\n"
        body = f"{skill.body.rstrip()}\n{head}{line}"
        self.mark(skill, body, also=f"{skill.get('also')} {draft.digest}".strip())
        return _loaded(skill.path)

    def mark(self, skill: Skill, body: str = "", /, **marks: str) -> None:
        """Writes `marks` and `body` into a skill's file; copies a shipped skill to `path` first."""
        place = self.path / skill.path.name
        if skill.path != place:
            shutil.copytree(skill.path, place)
        text = (place / "SKILL.md").read_text("utf-8")
        parsed = parse(text)
        metadata = {**skill.metadata, **{PREFIX + key: value for key, value in marks.items()}}
        fields = {key: parsed.fields.get(key) for key in OTHER_FIELDS}
        others = {key: value for key, value in fields.items() if isinstance(value, str)}
        rendered = render(skill.name, skill.description, metadata, body or parsed.body, others)
        write_whole(place / "SKILL.md", rendered)

    def retire(self, name: str) -> Path:
        """Moves a skill to the folder of retired ones, which no run reads; returns its new path."""
        skill = self.skill(name)
        target = self.path / RETIRED / skill.path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            target = target.with_name(f"{target.name}.{uuid4().hex[:8]}")
        if skill.path.parent == self.path:
            skill.path.replace(target)
        else:
            shutil.copytree(skill.path, target)
        sync(self.path)
        return target

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


def _folders(place: Path) -> list[Path]:
    folders = place.iterdir() if place.is_dir() else ()
    return sorted(p for p in folders if p.is_dir() and not p.name.startswith("."))


def _skills_in(place: Path) -> Iterator[Skill]:
    for folder in _folders(place):
        with suppress(UnreadableError):
            yield read_skill(folder)


def load_skill(folder: Path) -> Skill | None:
    """Returns the skill in a folder, even if its form has faults, or None if it is unusable."""
    try:
        return read_skill(folder)
    except UnreadableError:
        return None


def read_skill(folder: Path) -> Skill:
    """Returns the skill in a folder, even if its form has faults.

    Raises UnreadableError if it is unusable.
    """
    parsed = parse(read_bytes(folder).decode("utf-8", errors="replace"))
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
        raise ConfigError(
            f"{folder} holds no readable skill", hint="restore its SKILL.md, or remove the folder"
        )
    return skill


def _name(draft: SkillDraft) -> str:
    tail = "-" + draft.digest[:_DIGEST_CHARS]
    name = draft.title[: MAX_NAME - len(tail)].strip("-") + tail
    if not valid_name(name):
        raise ValueError(
            f"the title {draft.title!r} does not make a skill name; use words of letters and digits"
        )
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
        raise ValueError(f"correct the skill {folder.name}, then store it: {'; '.join(problems)}")


def _move_into_place(built: Path, final: Path) -> None:
    if final.is_dir() and load_skill(final) is not None:
        return
    shutil.rmtree(final, ignore_errors=True)
    built.replace(final)
    sync(final.parent)
