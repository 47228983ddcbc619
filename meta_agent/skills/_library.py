"""`SkillLibrary`: a folder of skills that several workspaces may share.

Promises: a skill appears whole or not at all (built beside its place, flushed, renamed); the same
lesson is stored once, whoever learned it; reading never fails because of one bad folder.

Does not cover: locking. Two writers of one lesson write equal folders, and the second finds the
first's; two writers of different lessons do not meet.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

from meta_agent.core.durable import sync, write_whole
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Candidate, Verdict
from meta_agent.core.skills import PREFIX, Skill, SkillDraft
from meta_agent.skills._distil import distil
from meta_agent.skills._format import UnreadableError, parse, render
from meta_agent.skills._retrieve import in_scope, near_duplicate, rank
from meta_agent.skills._validate import MAX_NAME, valid_name, validate

RETIRED = ".retired"
_DIGEST_CHARS = 8
_MAX_BYTES = 256 << 10
MOST_SHOWN = 3
"""Skills in a prompt, at most."""
AGAIN, SEEN = "references/again", "## Seen again"
OTHER_FIELDS = ("license", "compatibility", "allowed-tools")


class SkillLibrary:
    """The skills below one folder, ours and other people's."""

    def __init__(self, path: Path, shipped: Path | None = None) -> None:
        self.path, self._shipped = path, shipped

    def all(self) -> list[Skill]:
        """Every readable skill, by name; of those shipped what neither is here nor was retired."""
        shipped = _skills_in(self._shipped) if self._shipped is not None else ()
        not_retired = (
            skill for skill in shipped if not (self.path / RETIRED / skill.path.name).exists()
        )
        by_folder = {skill.path.name: skill for skill in (*not_retired, *_skills_in(self.path))}
        return [by_folder[name] for name in sorted(by_folder)]

    def offered(self, domain: str) -> list[Skill]:
        """What a run on this domain may go by."""
        return [skill for skill in self.all() if in_scope(skill, domain)]

    def distil(
        self,
        candidate: Candidate,
        verdict: Verdict,
        diff: str,
        evidence: Mapping[str, JSON],
        *,
        domain: str,
        trusted_text: bool,
    ) -> SkillDraft | None:
        """Returns the lesson of a verdict (see `distil`), or None if nothing was settled."""
        return distil(candidate, verdict, diff, evidence, domain=domain, trusted_text=trusted_text)

    def skill(self, name: str) -> Skill:
        """One by its name, or by as much of it as no other begins with."""
        skills = self.all()
        fitting = [skill for skill in skills if skill.name == name]
        fitting = fitting or [skill for skill in skills if name and skill.name.startswith(name)]
        if len(fitting) == 1:
            return fitting[0]
        near = ", ".join(skill.name for skill in fitting or skills)[:300]
        raise ConfigError(
            f"{self.path} has {len(fitting) or 'no'} skill {name!r}"
            + (f": {near}" if near else ""),
            hint="meta-agent skills show",
        )

    def find(
        self,
        domain: str,
        factor: str | None,
        text: str,
        limit: int = MOST_SHOWN,
        evidence: JSON = None,
    ) -> list[Skill]:
        """The skills that speak to a situation, best first; the same library, the same answer."""
        return rank(self.all(), domain, factor, text, evidence)[:limit]

    def write(self, draft: SkillDraft) -> Skill:
        """Stores a lesson, or returns the skill that holds it already: this one, or nearly so."""
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
        """A lesson learned again with another edit: the skill stays, and says where it was seen."""
        at = f"{AGAIN}/{draft.digest[:_DIGEST_CHARS]}"
        for name, text in draft.files.items():
            target = skill.path / at / name.rpartition("/")[2]
            if target.name != "check.py":
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, text)
        outcome = f"{draft.metadata.get('candidate', 'elsewhere')}: {draft.metadata.get('verdict')}"
        outcome += f", {draft.metadata.get('delta') or 'no effect stated'}"
        line = f"- {outcome}: [numbers]({at}/measured.md), [edit]({at}/apply.py)\n"
        head = "" if SEEN in skill.body else f"\n{SEEN}\n\n"
        body = f"{skill.body.rstrip()}\n{head}{line}"
        self.mark(skill, body, also=f"{skill.get('also')} {draft.digest}".strip())
        return _loaded(skill.path)

    def mark(self, skill: Skill, body: str = "", /, **marks: str) -> None:
        """Writes marks of ours into a skill of this library; a shipped one is copied first.

        `body`: what stands below them from now on; empty, it stays.
        """
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
        """Takes a skill out of sight: nothing offers it again, and nothing of it is lost."""
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


def _skills_in(place: Path) -> Iterator[Skill]:
    folders = place.iterdir() if place.is_dir() else ()
    for folder in sorted(p for p in folders if p.is_dir() and not p.name.startswith(".")):
        if (skill := load_skill(folder)) is not None:
            yield skill


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
