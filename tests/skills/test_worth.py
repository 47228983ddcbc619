"""Standing follows from trials, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meta_agent.core.errors import IntegrityError
from meta_agent.skills import SkillLibrary, validate
from meta_agent.skills.worth import FILE, Trial, record, trials

from ._kit import BETTER, HARM, OPEN, trial

LITTLE = (-0.01, -0.07, 0.05)


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    folder = tmp_path / "lib/demo"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        '---\nname: demo\ndescription: "Does: a thing."\nlicense: MIT\nmetadata:\n'
        '  meta-agent.kind: "positive"\n  meta-agent.status: "quarantine"\n---\n\n# Demo\n'
    )
    return SkillLibrary(tmp_path / "lib")


WAYS: dict[str, tuple[list[Trial], str]] = {
    "one that does good": ([trial(BETTER)], "domain"),
    "good in two domains": ([trial(BETTER), trial(BETTER, "math")], "global"),
    "the same domain twice": ([trial(BETTER), trial(BETTER)], "domain"),
    "nothing to be seen": ([trial(OPEN)], "quarantine"),
    "too few pairs": ([trial(BETTER, pairs=2)], "quarantine"),
    "harm": ([trial(HARM)], "retired"),
    "good once, harm when tried again": ([trial(BETTER), trial(HARM)], "quarantine"),
    "good once, harm with other seeds": ([trial(BETTER), trial(HARM, first=9)], "domain"),
    "good, and more harm": (
        [trial(BETTER), trial(HARM, first=9), trial(HARM, first=20), trial(HARM, first=30)],
        "quarantine",
    ),
    "good here, harm there": (
        [trial(BETTER), trial(BETTER, "math"), trial(HARM, "code")],
        "quarantine",
    ),
    "global, then nothing elsewhere": (
        [trial(BETTER), trial(BETTER, "math"), trial(OPEN, "code")],
        "global",
    ),
    "nothing, nothing, then luck": (
        [trial(LITTLE), trial(LITTLE, first=9), trial((0.05, 0.001, 0.099), first=20)],
        "quarantine",
    ),
    "no number": ([trial((float("nan"),) * 3)], "quarantine"),
}


@pytest.mark.parametrize("way", WAYS)
def test_standing_follows_from_the_trials(way: str, library: SkillLibrary) -> None:
    made, expected = WAYS[way]
    assert [record(library, one) for one in made][-1] == expected
    assert len(trials(library.path)) == len(made)
    if expected == "retired":
        assert library.all() == [] and (library.path / ".retired/demo/SKILL.md").is_file()
        return
    skill = library.skill("demo")
    assert skill.status == expected and skill.description == "Does: a thing."
    assert validate(skill.path) == []
    points = f"{100 * made[0].difference:+.1f}" if len(made) == 1 else ""
    assert points in skill.get("worth")
    assert "license: " in (skill.path / "SKILL.md").read_text()


@pytest.mark.parametrize(
    ("way", "expected"),
    [*zip(list(WAYS)[:2], ("general", "global"), strict=True), ("harm", "quarantine")],
)
def test_general_advice_becomes_global_by_trials_in_two_domains(
    way: str, expected: str, library: SkillLibrary
) -> None:
    library.mark(library.skill("demo"), status="general")
    assert [record(library, result) for result in WAYS[way][0]][-1] == expected


def test_a_run_gets_what_its_domain_earned_and_nothing_that_did_harm(library: SkillLibrary) -> None:
    def offered() -> list[str]:
        return [name for name in ("swe", "math") if library.offered(name)]

    library.mark(library.skill("demo"), domain="swe")
    assert offered() == ["swe"], "what a language model wrote here is tried at home"
    record(library, trial(BETTER))
    record(library, trial(BETTER, "math"))
    assert offered() == ["swe", "math"]
    record(library, trial(HARM))
    assert library.skill("demo").status == "quarantine" and offered() == []


def test_a_torn_record_is_named(library: SkillLibrary) -> None:
    record(library, trial(BETTER))
    with (library.path / FILE).open("a") as stream:
        stream.write(json.dumps({"skill": "demo"}) + "\n")
    with pytest.raises(IntegrityError):
        trials(library.path)


def test_a_shipped_skill_is_marked_in_a_copy(library: SkillLibrary, tmp_path: Path) -> None:
    mine = SkillLibrary(tmp_path / "mine", shipped=library.path)
    (tmp_path / "mine").mkdir()
    assert record(mine, trial(BETTER)) == "domain"
    assert library.skill("demo").status == "quarantine"
    assert mine.skill("demo").path == tmp_path / "mine/demo"


def test_a_shipped_skill_that_is_retired_is_out_of_sight_here(
    library: SkillLibrary, tmp_path: Path
) -> None:
    mine = SkillLibrary(tmp_path / "mine", shipped=library.path)
    (tmp_path / "mine").mkdir()
    assert record(mine, trial(HARM)) == "retired"
    assert mine.all() == [] and len(library.all()) == 1
    other = SkillLibrary(tmp_path / "other", shipped=library.path)
    other.retire("demo")
    assert other.all() == [] and (other.path / ".retired/demo/SKILL.md").is_file()
