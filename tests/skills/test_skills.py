"""Skills: what is written is valid, what is read is forgiven, what was learned is found again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from meta_agent.core.protocols import Candidate, Effect, Hypothesis, Verdict, VerdictKind
from meta_agent.core.skills import SkillDraft
from meta_agent.skills import SkillLibrary, distil, load_skill, validate

HYPOTHESIS = Hypothesis(
    factor="scaffold",
    statement="if MAX_TURNS grows from 4 to 8 then more attempts submit, because 42 % run out",
    metric="clean_success",
    direction="up",
    expected_delta=0.05,
    risks=("rollouts get longer",),
    evidence=("42 % of attempts stop at the turn limit (alert at > 20 %)",),
    rule="turn-limit",
)
CANDIDATE = Candidate(
    id="r1/g0/c0",
    run="r1",
    generation=0,
    index=0,
    ref="refs/heads/candidate/r1/0",
    base="a" * 40,
    commit="b" * 40,
    tree_hash="c" * 40,
    factor="scaffold",
    hypothesis=HYPOTHESIS,
    paths=("swe/agent.py",),
)
PROMOTE = Verdict(
    VerdictKind.PROMOTE, ("the interval is above zero",), Effect(0.1, 0.04, 0.16, 512, 4)
)
DIFF = """diff --git a/swe/agent.py b/swe/agent.py
index 1..2 100644
--- a/swe/agent.py
+++ b/swe/agent.py
@@ -1,3 +1,3 @@
 TOOLS = ["view"]
-MAX_TURNS = 4
+MAX_TURNS = 8
 OBSERVATION_CHARS = 80
"""
EVIDENCE = {"signal": {"turn_limit_share": 0.42}, "score": {"clean_success": 0.5}}


def draft(
    verdict: Verdict = PROMOTE, candidate: Candidate = CANDIDATE, diff: str = DIFF
) -> SkillDraft:
    made = distil(candidate, verdict, diff, EVIDENCE, domain="swe")
    assert made is not None
    return made


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(tmp_path / "skills")


def test_the_sign_is_what_was_acted_on_and_not_what_was_hoped_for() -> None:
    lines = (
        "conversation.result_cut is 0.552",
        "behaviour.turns_mean is 2.76",  # named, and within its limit
        "measured.endings.cut_observation_share is 0.534",
    )
    candidate = replace(CANDIDATE, hypothesis=replace(HYPOTHESIS, evidence=lines))
    made = draft(candidate=candidate)
    script = made.files["scripts/check.py"]
    assert re.findall(r'"metric": "(.+)"', script) == ["conversation.result_cut"]
    assert '"limit": 0.05' in script
    sign = "The sign: Share of results of which the policy saw a part."
    assert sign in made.body
    assert sign in made.description.partition("Example:")[0], "the particular is the example"
    assert "- conversation.result_cut is 0.552: share of results of which" in made.body


def test_without_a_known_sign_the_metric_itself_is_watched() -> None:
    script = draft().files["scripts/check.py"]
    assert re.findall(r'"metric": "(.+)"', script) == ["clean_success"]


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


def test_a_lesson_says_what_its_selection_did_to_the_estimate() -> None:
    assert PROMOTE.effect is not None
    seen = replace(PROMOTE, effect=replace(PROMOTE.effect, shrunk=0.07))
    made = draft(seen)
    assert "[+4.0, +16.0] (selected; likelier +7.0)" in made.description
    assert "| likelier, allowing for selection | +0.0700 |" in made.files["references/measured.md"]


def test_a_written_skill_is_valid_and_tells_its_story(library: SkillLibrary) -> None:
    skill = library.write(draft())
    assert validate(skill.path) == []
    assert skill.warnings == ()
    for title in (
        "Trigger",
        "Intervention",
        "Expected outcome",
        "Evidence",
        "Validation",
        "Applicability",
    ):
        assert f"## {title}" in skill.body
    assert (skill.domain, skill.factor, skill.rule, skill.status) == (
        "swe",
        "scaffold",
        "turn-limit",
        "domain",
    )
    assert "+10.0 points [+4.0, +16.0]" in skill.description
    assert (
        "| before.signal.turn_limit_share | 0.42 |"
        in (skill.path / "references/measured.md").read_text()
    )


def test_text_of_a_language_model_is_quarantined(library: SkillLibrary) -> None:
    made = distil(CANDIDATE, PROMOTE, DIFF, EVIDENCE, domain="swe", trusted_text=False)
    assert made is not None
    assert library.write(made).status == "quarantine"


def test_a_key_in_a_diff_is_not_stored(library: SkillLibrary) -> None:
    key = "sk-" + "a1B2" * 8
    skill = library.write(draft(diff=DIFF.replace('"view"', f'"{key}"')))
    assert not any(key in path.read_text() for path in skill.path.rglob("*") if path.is_file())


# --- the code of a skill -----------------------------------------------------------------------


def run_script(skill: Path, *argv: str) -> tuple[int, str]:
    command = [sys.executable, "-I", str(skill / "scripts/apply.py"), *argv]
    ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return ran.returncode, ran.stdout


def harness(tmp_path: Path, text: str) -> Path:
    (tmp_path / "h/swe").mkdir(parents=True)
    (tmp_path / "h/swe/agent.py").write_text(text)
    return tmp_path / "h"


BEFORE = 'TOOLS = ["view"]\nMAX_TURNS = 4\nOBSERVATION_CHARS = 80\n'


def test_the_script_applies_and_undoes_its_edit(library: SkillLibrary, tmp_path: Path) -> None:
    skill, folder = library.write(draft()).path, harness(tmp_path, "# moved\n\n" + BEFORE)
    assert run_script(skill, str(folder), "--check")[0] == 0
    assert (folder / "swe/agent.py").read_text() == "# moved\n\n" + BEFORE
    status, out = run_script(skill, str(folder))
    assert (status, json.loads(out)["paths"]) == (0, ["swe/agent.py"])
    assert "MAX_TURNS = 8\n" in (folder / "swe/agent.py").read_text()
    assert run_script(skill, str(folder), "--undo")[0] == 0
    assert (folder / "swe/agent.py").read_text() == "# moved\n\n" + BEFORE


def test_the_script_refuses_another_harness(library: SkillLibrary, tmp_path: Path) -> None:
    folder = harness(tmp_path, "MAX_TURNS = 5\n")
    status, out = run_script(library.write(draft()).path, str(folder))
    assert (status, json.loads(out)["applies"]) == (1, False)
    assert (folder / "swe/agent.py").read_text() == "MAX_TURNS = 5\n"


def test_the_script_explains_itself(library: SkillLibrary) -> None:
    skill = library.write(draft()).path
    assert "--check" in run_script(skill, "--help")[1]
    assert run_script(skill, "--show")[1] == DIFF
    assert run_script(skill)[0] == 2


WORSE = Verdict(VerdictKind.REJECT, ("it lost",), Effect(-0.1, -0.16, -0.04, 512, 2))


def test_what_is_not_to_be_repeated_refuses_to_be(library: SkillLibrary, tmp_path: Path) -> None:
    skill, folder = library.write(draft(WORSE)).path, harness(tmp_path, BEFORE)
    status, out = run_script(skill, str(folder))
    told = json.loads(out)
    assert (status, told["written"]) == (3, False)
    assert "REJECT, clean success -10.0 points [-16.0, -4.0]: it lost" in told["refused"]
    assert (folder / "swe/agent.py").read_text() == BEFORE
    assert run_script(skill, str(folder), "--check")[0] == 0
    assert run_script(skill, str(folder), "--force")[0] == 0
    assert "MAX_TURNS = 8\n" in (folder / "swe/agent.py").read_text()
    assert run_script(skill, str(folder), "--undo")[0] == 0, "taking it out is never refused"


@pytest.mark.parametrize("verdict", [WORSE, PROMOTE], ids=["negative", "positive"])
def test_a_lesson_says_what_was_measured_and_not_what_was_hoped(
    verdict: Verdict, library: SkillLibrary
) -> None:
    skill = library.write(draft(verdict))
    assert "MAX_TURNS grows from 4 to 8" in skill.description
    for text in (skill.description, skill.body.split("## Expected outcome")[0]):
        assert "more attempts submit" not in text, "that was the hope"
        assert f"{100 * verdict.effect.delta:+.1f} points" in text  # type: ignore[union-attr]
    assert "Foretold, and not measured here" in skill.body


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


ODD_EDITS = {
    "a new file": (None, "x = 1\ny = 2\n"),
    "a removed file": ("x = 1\n", None),
    "no newline at the end": ("a\nb", "a\nc"),
    "a newline added at the end": ("a\nb", "a\nb\n"),
    "a form feed and a line separator": ("a\x0cb\u2028c\nd\n", "a\x0cb\u2028c\ne\n"),
    "two places": (
        "".join(f"{n}\n" for n in range(40)),
        "".join(f"{n + (n in (3, 30))}\n" for n in range(40)),
    ),
}


@pytest.mark.parametrize("name", ODD_EDITS)
def test_the_script_does_what_git_would(name: str, library: SkillLibrary, tmp_path: Path) -> None:
    before, after = ODD_EDITS[name]
    folder = tmp_path / "g"
    folder.mkdir()
    file = folder / "f.py"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for step in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "0"]):
        subprocess.run([*git, *step], cwd=folder, check=True)
    for content in (before, after):
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_text(content, newline="")
        subprocess.run([*git, "add", "-A"], cwd=folder, check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=folder, check=True)
    diff = subprocess.run(
        [*git, "diff", "--text", "HEAD~1", "HEAD"], cwd=folder, check=True, capture_output=True
    )
    skill = library.write(draft(diff=diff.stdout.decode())).path
    subprocess.run([*git, "checkout", "-q", "HEAD~1"], cwd=folder, check=True)
    assert run_script(skill, str(folder))[0] == 0
    assert (file.read_text() if file.exists() else None) == after
    assert run_script(skill, str(folder), "--undo")[0] == 0
    assert (file.read_text() if file.exists() else None) == before


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


def test_own_domain_and_factor_come_first(library: SkillLibrary) -> None:
    scaffold = library.write(draft())
    reward = library.write(
        draft(
            candidate=replace(
                CANDIDATE, factor="reward", hypothesis=replace(HYPOTHESIS, rule="bonus")
            )
        )
    )
    found = library.find("swe", "reward", "turn limit")
    assert [skill.name for skill in found] == [reward.name, scaffold.name]


def test_words_decide_within_a_factor(library: SkillLibrary) -> None:
    library.write(draft())
    other = replace(
        HYPOTHESIS,
        rule="observations",
        statement="if observations are longer then edits hit",
        evidence=("31 % of tool results are cut",),
    )
    seen = library.write(draft(candidate=replace(CANDIDATE, hypothesis=other)))
    assert library.find("swe", "scaffold", "observations cut by the scaffold")[0].name == seen.name


def test_another_domains_skill_is_seen_only_when_global(library: SkillLibrary) -> None:
    skill = library.write(draft())
    assert library.find("math", "scaffold", "turn limit") == []
    file = skill.path / "SKILL.md"
    file.write_text(re.sub(r"(?m)(status: ).*$", r"\1global", file.read_text()))
    assert [s.name for s in library.find("math", "scaffold", "turn limit")] == [skill.name]
    assert validate(skill.path) == []


# --- reading and validating other people's skills ------------------------------------------------

GOOD = "---\nname: demo\ndescription: Does a thing. Use when asked.\n---\n\n# Demo\n"


def folder_with(tmp_path: Path, text: str | bytes, name: str = "demo") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


INVALID = {
    "flow metadata": GOOD.replace("---\n\n", "metadata: {a: b}\n---\n\n"),
    "flow tools": GOOD.replace("---\n\n", "allowed-tools: [A, B]\n---\n\n"),
    "angle bracket": GOOD.replace("a thing", "<a thing>"),
    "letter outside ASCII": GOOD.replace("name: demo", "name: café"),
    "upper case": GOOD.replace("name: demo", "name: Demo"),
    "double hyphen": GOOD.replace("name: demo", "name: de--mo"),
    "another folder's name": GOOD.replace("name: demo", "name: other"),
    "no name": GOOD.replace("name: demo\n", ""),
    "empty description": GOOD.replace("Does a thing. Use when asked.", '""'),
    "long description": GOOD.replace("a thing", "a thing " * 200),
    "repeated key": GOOD.replace("name: demo", "name: demo\nname: demo"),
    "version field": GOOD.replace("---\n\n", "version: 1\n---\n\n"),
    "unquoted colon": GOOD.replace("a thing.", "this: a thing."),
    "unquoted hash": GOOD.replace("a thing.", "issue #12 of a thing."),
    "byte order mark": "\ufeff" + GOOD,
    "CR line ends": GOOD.replace("\n", "\r\n"),
    "list of tools": GOOD.replace("---\n\n", "allowed-tools:\n  - A\n---\n\n"),
    "nested metadata": GOOD.replace("---\n\n", "metadata:\n  a:\n    b: c\n---\n\n"),
    "list as metadata": GOOD.replace("---\n\n", "metadata:\n  - a\n---\n\n"),
    "empty body": GOOD.replace("# Demo\n", ""),
    "long body": GOOD + "line\n" * 600,
    "dead link": GOOD + "[x](references/none.md)\n",
    "link that leaves": GOOD + "[x](../other/SKILL.md)\n",
    "anchor": GOOD.replace("Does a thing. Use when asked.", "&a Does"),
    "alias": "---\nname: demo\ndescription: &a x\nlicense: *a\n---\nbody\n",
    "no frontmatter": "# Demo\n",
    "not UTF-8": GOOD.encode() + b"\xff",
    "a key": GOOD + "token sk-" + "a1B2" * 8 + "\n",
}


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


def test_the_public_reference_library_accepts_what_is_written_and_what_ours_accepts(
    library: SkillLibrary, tmp_path: Path
) -> None:
    reference = pytest.importorskip("skills_ref", reason="pip install skills-ref")
    assert reference.validate(library.write(draft()).path) == []
    for name, text in VALID.items():
        (tmp_path / name).mkdir()
        assert reference.validate(folder_with(tmp_path / name, text)) == [], name
    for name in ("upper case", "version field", "flow metadata", "long description"):
        (tmp_path / name).mkdir()
        assert reference.validate(folder_with(tmp_path / name, INVALID[name])) != [], name


@pytest.mark.parametrize("name", VALID)
def test_the_validator_accepts(name: str, tmp_path: Path) -> None:
    assert validate(folder_with(tmp_path, VALID[name])) == []


@pytest.mark.parametrize(
    "name",
    [
        "flow metadata",
        "upper case",
        "unquoted colon",
        "unquoted hash",
        "byte order mark",
        "CR line ends",
        "version field",
    ],
)
def test_the_reader_forgives_and_says_so(name: str, tmp_path: Path) -> None:
    skill = load_skill(folder_with(tmp_path, INVALID[name]))
    assert skill is not None
    assert skill.warnings != ()
    assert skill.status == "quarantine"


def test_a_description_is_read_past_its_hash(tmp_path: Path) -> None:
    skill = load_skill(folder_with(tmp_path, INVALID["unquoted hash"]))
    assert skill is not None and skill.description.startswith("Does issue #12 of a thing. Use")


@pytest.mark.parametrize("name", ["alias", "no frontmatter", "empty description"])
def test_the_reader_skips_what_has_no_meaning(name: str, tmp_path: Path) -> None:
    assert load_skill(folder_with(tmp_path, INVALID[name])) is None
