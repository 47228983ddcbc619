"""Ranks skills for a situation: first those whose trigger shows in its evidence, then by words.

A trigger is the metric that a skill watches for. Words are compared by SQLite's full-text index
(FTS5, BM25 with words brought to their stems). Scope comes before words: a skill of the same
domain and factor (the part of a harness) beats any amount of shared vocabulary. The index is made
anew from the folders in memory, which takes milliseconds for some hundred skills, and the same
library always gives the same order.
Some quarantined skills are for people alone, so `in_scope` is never True for them: those that came
from elsewhere (`Skill.foreign`), and those whose trials did not lift the quarantine.
"""

from __future__ import annotations

import re
import sqlite3  # noqa: TID251 - an index in memory; nothing durable
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from meta_agent.core.protocols import JSON
from meta_agent.core.skills import Skill, SkillDraft
from meta_agent.skills.looking import look, watches_of

_WORD: Final = re.compile(r"[a-z0-9]+")
_STOP_WORDS: Final = (
    "a and are as at by do does for i if in is it my not of on or that the they to we what why with"
)
_STOP: Final = frozenset(_STOP_WORDS.split())
# Above any BM25 sum of a few query words over short documents.
_DOMAIN_BONUS: Final = 200.0
_FACTOR_BONUS: Final = 100.0
_NEARLY: Final = 0.8  # share of common words at which two descriptions say the same
_WEIGHTS: Final = "8.0, 4.0, 1.0"  # of name, description, body


def rank(
    skills: Sequence[Skill], domain: str, factor: str | None, text: str, evidence: JSON = None
) -> list[Skill]:
    """Returns the skills that a run on `domain` may use, best match first.

    Skills whose watched metric is beyond its limit in `evidence` lead. Then `factor` counts, and
    last the words in common with `text`.
    """
    usable = [skill for skill in skills if in_scope(skill, domain)]
    scores = words_of(usable, text)

    def place(skill: Skill) -> tuple[bool, float, str]:
        fits = scores.get(skill.name, 0.0) + _scope(skill, domain, factor)
        return not (evidence and _shows(skill, evidence)), -fits, skill.name

    return sorted(usable, key=place)


def near_duplicate(draft: SkillDraft, skill: Skill) -> bool:
    """Returns True if a skill teaches what a draft does: the same rule, or nearly the same words.

    Returns False if their kind, domain, factor or metric differ, or if the skill is imported.
    """
    metadata = draft.metadata
    same = ("kind", "domain", "factor", "metric")
    if skill.foreign or any(skill.get(name) != metadata.get(name, "") for name in same):
        return False
    if skill.rule or metadata.get("rule"):
        return skill.rule == metadata.get("rule")
    ours, theirs = (
        set(_WORD.findall(text.lower())) for text in (draft.description, skill.description)
    )
    return len(ours & theirs) >= _NEARLY * len(ours | theirs)


def in_scope(skill: Skill, domain: str) -> bool:
    """Returns True if a run on this domain may use the skill.

    The skill must be of this domain, or have the status general or global, and be no guide for
    coding agents. A quarantined (unproven) skill must be learned here and have had no trial.
    """
    earned = skill.status != "quarantine" or not (skill.foreign or skill.get("worth"))
    if skill.kind == "guide" or not earned:
        return False
    return skill.domain == domain or skill.status in ("general", "global")


def words_of(skills: Sequence[Skill], text: str) -> dict[str, float]:
    """Returns a BM25 score (high is good), by name, for each skill with words in `text`."""
    words = sorted({word for word in _WORD.findall(text.lower()) if word not in _STOP})
    if not (words and skills):
        return {}
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute("CREATE VIRTUAL TABLE s USING fts5(name, about, body, tokenize = 'porter')")
        rows = [
            (skill.name, f"{skill.description} {skill.rule} {skill.factor}", skill.body)
            for skill in skills
        ]
        base.executemany("INSERT INTO s VALUES (?, ?, ?)", rows)
        any_word = " OR ".join(f'"{word}"' for word in words)
        query = f"SELECT name, bm25(s, {_WEIGHTS}) FROM s WHERE s MATCH ?"
        return {name: -score for name, score in base.execute(query, (any_word,))}


def _shows(skill: Skill, evidence: JSON) -> bool:
    """Returns True if a metric that the skill watches is beyond its limit in the evidence."""
    watches, n = watches_of(skill), evidence["layers"]["score"].get("n", 0)
    counts = {name: n for watch in watches for name in watch.needs}
    report = {"evidence": evidence, "shape": {}, "rollouts": n, "known": counts}
    return any(look(watch, report)[0] for watch in watches)


def _scope(skill: Skill, domain: str, factor: str | None) -> float:
    same_domain = _DOMAIN_BONUS if skill.domain == domain else 0.0
    return same_domain + (_FACTOR_BONUS if factor and skill.factor == factor else 0.0)
