"""Skills: lessons in text form. A skill in memory, the draft of one, and a library of them.

Skills are stored as Agent Skills folders: `SKILL.md` with six possible frontmatter fields, and
files beside it. The specification has no field for provenance, so it is stored in `metadata`
strings under keys that begin with `PREFIX`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from meta_agent.core.protocols import JSON, Candidate, Verdict

PREFIX: Final = "meta-agent."
Status = Literal["quarantine", "general", "domain", "global"]
STATUSES: Final[tuple[Status, ...]] = ("quarantine", "general", "domain", "global")
SkillKind = Literal["positive", "negative", "guide"]
KINDS: Final[tuple[SkillKind, ...]] = ("positive", "negative", "guide")
"""A lesson to follow, a lesson that warns, and a guide for coding agents that no run receives."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill (a lesson as text) read from its folder. `warnings` lists faults of its files."""

    name: str
    description: str
    body: str
    path: Path
    metadata: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def get(self, key: str) -> str:
        """Returns the metadata value that meta-agent stores under `key`, or the empty string."""
        return self.metadata.get(PREFIX + key, "")

    @property
    def kind(self) -> SkillKind:
        """Returns `positive` (what helped), `negative` or `guide`; `positive` if none is stated."""
        return next((kind for kind in KINDS if kind == self.get("kind")), "positive")

    @property
    def status(self) -> Status:
        """Returns the skill's trust: `quarantine` (the default), `general`, `domain`, `global`."""
        return next((status for status in STATUSES if status == self.get("status")), "quarantine")

    @property
    def foreign(self) -> bool:
        """Returns True if the skill was imported from another library."""
        return bool(self.get("origin"))

    @property
    def domain(self) -> str:
        return self.get("domain")

    @property
    def factor(self) -> str:
        return self.get("factor")

    @property
    def rule(self) -> str:
        return self.get("rule")

    @property
    def digest(self) -> str:
        return self.get("digest")


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """A skill (a lesson as text) that is not stored yet. `files` are texts by relative path."""

    title: str  # a slug; the library adds a part of the digest to make the name
    description: str
    body: str
    metadata: Mapping[str, str]  # without PREFIX
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Returns a hash of the lesson without its author. Lessons of one hash become one skill."""
        lesson = {key: self.metadata.get(key, "") for key in ("domain", "factor", "rule", "kind")}
        lesson["edit"] = self.files.get("edit.patch", "")
        return hashlib.sha256(json.dumps(lesson, sort_keys=True).encode()).hexdigest()


class SkillLibrary(Protocol):
    """The skills that a run may read, and to which it adds new ones."""

    def offered(self, domain: str) -> Sequence[Skill]:
        """Returns the skills (lessons) that a run on this domain may use."""
        ...

    def find(
        self, domain: str, factor: str | None, text: str, limit: int = ..., evidence: JSON = None
    ) -> Sequence[Skill]:
        """Returns skills (lessons) that fit a domain, factor, text and evidence, best first."""
        ...

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
        """Returns a skill's draft from a candidate's verdict, or None if nothing was settled.

        `trusted_text` is False if a model wrote the hypothesis; then the skill is quarantined.
        """
        ...

    def write(self, draft: SkillDraft) -> Skill:
        """Stores a lesson; returns its skill or an equal older one. Raises ValueError if bad."""
        ...
