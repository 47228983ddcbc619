"""One lesson is one skill: learned again with another edit it grows, and three go into a prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.core.loop.verbs import _briefing
from meta_agent.core.protocols import Candidate, Hypothesis
from meta_agent.core.skills import SkillDraft
from meta_agent.readers.evidence import build_evidence
from meta_agent.skills import SkillLibrary, validate
from meta_agent.skills.worth import record
from tests.evidence._rollouts import rollout

from ._kit import CANDIDATE, DIFF, HYPOTHESIS, LIBRARY, WORSE, draft, gain

OTHER_DIFF = DIFF.replace("MAX_TURNS = 8", "MAX_TURNS = 12")
WORDED = replace(HYPOTHESIS, rule="")


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(tmp_path / "mine")


def by(hypothesis: Hypothesis, name: str = "r2/g1/c0") -> Candidate:
    return replace(CANDIDATE, id=name, hypothesis=hypothesis, factor=hypothesis.factor)


AGAIN = draft(candidate=by(HYPOTHESIS), diff=OTHER_DIFF)
FAR: dict[str, SkillDraft] = {
    "another verdict": draft(WORSE, by(HYPOTHESIS), OTHER_DIFF),
    "another factor": draft(candidate=by(replace(HYPOTHESIS, factor="reward")), diff=OTHER_DIFF),
    "another rule": draft(candidate=by(replace(HYPOTHESIS, rule="look-first")), diff=OTHER_DIFF),
    "another metric": draft(
        candidate=by(replace(HYPOTHESIS, metric="behaviour.turns")), diff=OTHER_DIFF
    ),
}


def test_a_lesson_learned_again_is_one_skill_with_both_numbers(library: SkillLibrary) -> None:
    first = library.write(draft())
    for _ in range(2):  # a run that is resumed writes it again
        assert library.write(AGAIN).name == first.name
    (skill,) = library.all()
    assert validate(skill.path) == []
    assert skill.body.count("## Seen again") == skill.body.count("r2/g1/c0") == 1
    again = skill.path / "references/again" / AGAIN.digest[:8]
    assert "MAX_TURNS = 12" in (again / "edit.patch").read_text()
    assert "r2/g1/c0" in (again / "measured.md").read_text()
    assert "MAX_TURNS = 8" in (skill.path / "edit.patch").read_text(), "the first one stays"
    third = draft(candidate=by(HYPOTHESIS, "r3/g0/c0"), diff=DIFF.replace("= 8", "= 16"))
    assert library.write(third).body.count("- r") >= 2 and len(library.all()) == 1


@pytest.mark.parametrize("how", FAR)
def test_another_lesson_is_another_skill(how: str, library: SkillLibrary) -> None:
    library.write(draft())
    library.write(FAR[how])
    assert len(library.all()) == 2


def test_words_of_a_language_model_that_say_the_same_are_one_skill(library: SkillLibrary) -> None:
    first = draft(candidate=by(WORDED))
    same = replace(first, files={**first.files, "edit.patch": "another edit"})
    words = "Removes the tool that shows history. Use when it leaks."
    other = replace(first, description=words, files={**first.files, "edit.patch": "a third"})
    library.write(first)
    assert library.write(same).body.count("## Seen again") == 1
    library.write(other)
    assert len(library.all()) == 2


def test_its_worth_outlives_a_merge(library: SkillLibrary) -> None:
    name = library.write(draft()).name
    record(library, gain(name))
    merged = library.write(AGAIN)
    assert "+10.0" in merged.get("worth") and merged.status == "domain"


def test_at_most_three_are_shown_and_those_whose_trigger_shows_come_first(tmp_path: Path) -> None:
    dead = [rollout(t, s, outcome=False, rewards={"r": 0.0}) for t in range(12) for s in range(4)]
    evidence = build_evidence(dead)
    words = [SimpleNamespace(metric="grader", message="it edits the tests, tamper, assertions")]
    reading: Any = SimpleNamespace(evidence=SimpleNamespace(to_json=evidence.to_json, alerts=words))
    config = SimpleNamespace(domain="swe")
    run: Any = SimpleNamespace(skills=SkillLibrary(LIBRARY), config=config)
    shown = [skill.name for skill in _briefing._fitting(run, reading)]
    assert len(shown) == 3 and "revive-dead-groups" in shown, shown
    by_words = SkillLibrary(LIBRARY).find("swe", None, "it edits the tests, tamper, assertions")
    assert "revive-dead-groups" not in {skill.name for skill in by_words}
