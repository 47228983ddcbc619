"""Skills: what is written is valid, what is read is forgiven, what was learned is found again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import Effect, Verdict, VerdictKind
from meta_agent.skills import SkillLibrary, distil, load_skill, validate

from ._kit import (
    CANDIDATE,
    DIFF,
    EVIDENCE,
    GOOD,
    HYPOTHESIS,
    INVALID,
    PROMOTE,
    WORSE,
    draft,
    folder_with,
)


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(tmp_path / "skills")


def test_the_sign_is_what_was_acted_on_and_not_what_was_hoped_for() -> None:
    lines = (
        "conversation.result_cut is 0.552",
        "behaviour.turns_mean is 2.76",  # named, and within its limit
        "measured.endings.cut_observation_share is 0.534",
    )
    made = draft(candidate=replace(CANDIDATE, hypothesis=replace(HYPOTHESIS, evidence=lines)))
    assert made.metadata["watches"] == "conversation.result_cut above 0.05"
    assert draft().metadata["watches"].startswith("clean_success below ")
    assert "conversation.result_cut" in made.body and "0.552" in made.body


# --- what teaches ------------------------------------------------------------------------------

LESSONS = {
    "a promotion": (PROMOTE, "positive"),
    "an invalid branch": (Verdict(VerdictKind.INVALID, ("leak use 60 %",)), "negative"),
    "a rejection without any gain": (
        Verdict(VerdictKind.REJECT, ("worse",), Effect(-0.1, -0.16, -0.04, 512, 2)),
        "negative",
    ),
    "a rejection that may hide a gain": (
        Verdict(VerdictKind.REJECT, ("flat",), Effect(0.0, -0.04, 0.04, 512, 2)),
        None,
    ),
    "a rejection that was not measured": (Verdict(VerdictKind.REJECT, ("contract test",)), None),
    "no decision": (
        Verdict(VerdictKind.INCONCLUSIVE, ("wide",), Effect(0.1, -0.1, 0.3, 9, 2)),
        None,
    ),
    "ranked out": (replace(PROMOTE, kind=VerdictKind.REJECT, screened_out=True), None),
}


@pytest.mark.parametrize("name", LESSONS)
def test_only_settled_verdicts_teach(name: str, library: SkillLibrary) -> None:
    verdict, kind = LESSONS[name]
    made = distil(CANDIDATE, verdict, DIFF, EVIDENCE, domain="swe")
    assert (library.write(made).kind if made else None) == kind


def test_a_written_skill_is_valid_and_holds_what_was_measured(library: SkillLibrary) -> None:
    assert PROMOTE.effect is not None
    verdict = replace(PROMOTE, effect=replace(PROMOTE.effect, shrunk=0.07))
    skill = library.write(draft(verdict))
    assert (validate(skill.path), skill.warnings) == ([], ())
    titles = ("Trigger", "Intervention", "Expected outcome", "Evidence", "Validation")
    assert all(f"## {title}" in skill.body for title in (*titles, "Applicability"))
    fields = (skill.domain, skill.factor, skill.rule, skill.status)
    assert fields == ("swe", "scaffold", "turn-limit", "domain")
    numbers = re.findall(r"[+-]\d+\.\d", skill.description)
    assert numbers == ["+10.0", "+4.0", "+16.0", "+7.0"], "effect, interval, after the selection"
    measured = (skill.path / "references/measured.md").read_text()
    assert "+0.0700" in measured and "signal.turn_limit_share | 0.42" in measured


def test_text_of_a_language_model_is_quarantined(library: SkillLibrary) -> None:
    made = distil(CANDIDATE, PROMOTE, DIFF, EVIDENCE, domain="swe", trusted_text=False)
    assert made is not None
    assert library.write(made).status == "quarantine"


def test_a_key_in_a_diff_is_not_stored(library: SkillLibrary) -> None:
    key = "sk-" + "a1B2" * 8
    skill = library.write(draft(diff=DIFF.replace('"view"', f'"{key}"')))
    assert not any(key in path.read_text() for path in skill.path.rglob("*") if path.is_file())


# --- the code of a skill -----------------------------------------------------------------------


BEFORE = 'TOOLS = ["view"]\nMAX_TURNS = 4\nOBSERVATION_CHARS = 80\n'


def test_git_applies_its_edit_finds_it_and_takes_it_out(
    library: SkillLibrary, tmp_path: Path
) -> None:
    patch = library.write(draft()).path / "edit.patch"
    assert patch.read_text() == DIFF
    file = tmp_path / "swe/agent.py"
    file.parent.mkdir()
    file.write_text(BEFORE + "# more\n")

    def apply(*options: str) -> int:
        return subprocess.run(["git", "apply", *options, patch], cwd=tmp_path).returncode

    assert apply("--check", "-R") != 0 == apply()
    assert "MAX_TURNS = 8\n" in file.read_text()
    assert apply("--check", "-R") == 0 == apply("-R")
    assert file.read_text() == BEFORE + "# more\n"


def test_a_negative_lesson_says_not_to_apply_its_edit(library: SkillLibrary) -> None:
    bad, good = (library.write(draft(verdict)).body for verdict in (WORSE, PROMOTE))
    assert "must not be repeated" in bad and "`git apply edit.patch`" not in bad
    assert "`git apply edit.patch`" in good


@pytest.mark.parametrize("verdict", [WORSE, PROMOTE], ids=["negative", "positive"])
def test_a_lesson_says_what_was_measured_and_not_what_was_hoped(
    verdict: Verdict, library: SkillLibrary
) -> None:
    skill = library.write(draft(verdict))
    assert "MAX_TURNS grows from 4 to 8" in skill.description
    for text in (skill.description, skill.body.split("## Expected outcome")[0]):
        assert "more attempts submit" not in text, "that was the hope"
        assert f"{100 * verdict.effect.delta:+.1f} points" in text  # type: ignore[union-attr]


def test_its_check_reads_any_rollouts(library: SkillLibrary, tmp_path: Path) -> None:
    about = replace(HYPOTHESIS, metric="signal.dead_group_ratio", direction="down")
    skill = library.write(draft(candidate=replace(CANDIDATE, hypothesis=about)))
    script = str(skill.path / "scripts/check.py")
    rows = [
        {"prompt": f"do {n % 6}", "completion": "x", "reward": 1.0 + spread * (n // 6)}
        for spread in (0.0, 0.5)
        for n in range(24)
    ]
    for name, part, status in (("dead", rows[:24], 1), ("alive", rows[24:], 0)):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in part))
        ran = subprocess.run([sys.executable, script, str(file)], capture_output=True, check=False)
        assert ran.returncode == status, ran.stdout
    ran = subprocess.run([sys.executable, script, "/nowhere"], capture_output=True, check=False)
    assert ran.returncode == 3


# --- the library -------------------------------------------------------------------------------


def test_the_same_lesson_is_stored_once(library: SkillLibrary) -> None:
    first = library.write(draft())
    again = library.write(draft(candidate=replace(CANDIDATE, run="r2", id="r2/g0/c1")))
    assert again == first
    assert len(library.all()) == 1


def test_a_killed_write_leaves_nothing_to_read(library: SkillLibrary) -> None:
    made = draft()
    leftover = library.path / ".swe-turn-limit-00000000.abc" / "swe-turn-limit-00000000"
    leftover.mkdir(parents=True)
    (leftover / "SKILL.md").write_text("---\nname: half")
    assert library.all() == []
    assert library.write(made).name in {skill.name for skill in library.all()}


def test_a_bad_folder_does_not_hide_the_others(library: SkillLibrary) -> None:
    library.write(draft())
    (library.path / "broken").mkdir()
    (library.path / "broken/SKILL.md").write_bytes(b"\xff\xfe no frontmatter")
    assert len(library.all()) == 1


def test_own_factor_comes_first_and_words_decide_within_it(library: SkillLibrary) -> None:
    def learned(factor: str, rule: str, **more: Any) -> str:
        hypothesis = replace(HYPOTHESIS, factor=factor, rule=rule, **more)
        candidate = replace(CANDIDATE, factor=factor, hypothesis=hypothesis)
        return library.write(draft(candidate=candidate)).name

    turns, reward = learned("scaffold", "turn-limit"), learned("reward", "bonus")
    assert [skill.name for skill in library.find("swe", "reward", "turn limit")] == [reward, turns]
    cut = ("31 % of tool results are cut",)
    statement = "if observations are longer then edits hit"
    seen = learned("scaffold", "observations", statement=statement, evidence=cut)
    assert library.find("swe", "scaffold", "observations cut by the scaffold")[0].name == seen


def test_another_domains_skill_is_seen_only_when_global(library: SkillLibrary) -> None:
    skill = library.write(draft())
    assert library.find("math", "scaffold", "turn limit") == []
    file = skill.path / "SKILL.md"
    file.write_text(re.sub(r"(?m)(status: ).*$", r"\1global", file.read_text()))
    assert [s.name for s in library.find("math", "scaffold", "turn limit")] == [skill.name]
    assert validate(skill.path) == []


# --- reading and validating other people's skills ------------------------------------------------


@pytest.mark.parametrize("name", INVALID)
def test_the_validator_refuses(name: str, tmp_path: Path) -> None:
    assert validate(folder_with(tmp_path, INVALID[name])) != []


VALID = {
    "the least": GOOD,
    "all fields": GOOD.replace(
        "---\n\n",
        "license: MIT\ncompatibility: Python\nallowed-tools: Read Bash(git:*)\n"
        'metadata:\n  a.b: "1"\n---\n\n',
    ),
    "folded description": GOOD.replace("Does a thing.", ">-\n  Does: a thing."),
    "a web link": GOOD + "[x](https://example.org/a)\n",
}


def test_the_public_reference_library_and_ours_accept_the_same(
    library: SkillLibrary, tmp_path: Path
) -> None:
    reference = pytest.importorskip("skills_ref", reason="pip install skills-ref")
    assert reference.validate(library.write(draft()).path) == []
    refused = ("upper case", "version field", "flow metadata", "long description")
    for name, text in {**VALID, **{name: INVALID[name] for name in refused}}.items():
        (tmp_path / name).mkdir()
        folder = folder_with(tmp_path / name, text)
        assert (reference.validate(folder) == []) == (validate(folder) == []) == (name in VALID)


FORGIVEN = ["flow metadata", "upper case", "unquoted colon", "unquoted hash", "byte order mark"]


@pytest.mark.parametrize("name", [*FORGIVEN, "CR line ends", "version field"])
def test_the_reader_forgives_and_warns(name: str, tmp_path: Path) -> None:
    skill = load_skill(folder_with(tmp_path, INVALID[name]))
    assert skill is not None
    assert skill.warnings != () and skill.status == "quarantine"
    assert "thing" in skill.description, "past a hash too"


@pytest.mark.parametrize("name", ["alias", "no frontmatter", "empty description"])
def test_the_reader_skips_what_has_no_meaning(name: str, tmp_path: Path) -> None:
    assert load_skill(folder_with(tmp_path, INVALID[name])) is None
