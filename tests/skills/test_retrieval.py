"""The right skill among the first three: by words, and triggers that are read and never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meta_agent.core.skills import Skill
from meta_agent.readers.foreign import read_foreign
from meta_agent.skills import SkillLibrary
from meta_agent.skills._library import load_skill
from meta_agent.skills._retrieve import words_of
from meta_agent.skills.looking import Watch, checked, look, watches_of

from ._kit import LIBRARY, made

# Each as somebody would ask who has not read the skill.
ASKED = {
    "the agent finds the fix in the git history": "read-a-leak",
    "score jumped after we gave it a log tool, too good to be true": "read-a-leak",
    "GRPO advantages are all zero": "revive-dead-groups",
    "rewards hardly differ inside a group, no gradient": "revive-dead-groups",
    "reward goes up but success does not": "stop-a-reward-hack",
    "the format score pays more than solving": "stop-a-reward-hack",
    "replies stop in mid-sentence at max tokens": "end-truncation",
    "runs out of turns before submitting": "end-truncation",
    "answers get longer and longer in training": "pay-for-outcome-not-length",
    "length bias of the loss": "pay-for-outcome-not-length",
    "it forgets what the tool said two turns ago": "show-the-whole-conversation",
    "chat template strips reasoning from earlier turns": "show-the-whole-conversation",
    "tasks are far too hard for this policy": "fit-the-curriculum",
    "choose the order of training tasks": "fit-the-curriculum",
    "the model broke at step 40 and repeats one phrase": "catch-a-learning-rate-collapse",
    "learning rate too high, gradient norm exploded": "catch-a-learning-rate-collapse",
    "entropy collapsed, all samples are the same": "restore-exploration",
    "pass@8 is no better than pass@1": "restore-exploration",
    "edit tool refuses most calls": "mend-refused-actions",
    "agent calls the same command over and over": "mend-refused-actions",
    "it edited the tests to make them pass": "guard-the-grader",
    "sys.exit(0) before the assertions run": "guard-the-grader",
    "containers crash under load and count as failures": "keep-lost-attempts-apart",
    "two evaluations of the same checkpoint disagree": "keep-lost-attempts-apart",
}


def first_three(text: str) -> list[str]:
    scores = words_of(SkillLibrary(LIBRARY).all(), text)
    return sorted(scores, key=lambda name: -scores[name])[:3]


def test_recall_at_three_by_words() -> None:
    missed = {asked: name for asked, name in ASKED.items() if name not in first_three(asked)}
    assert len(missed) <= len(ASKED) // 10, missed


def test_nothing_fits_nothing() -> None:
    assert first_three("zebra quagga okapi") == []
    assert first_three("") == first_three('"*^ (:') == []


UNREADABLE = (
    *("behaviour.x above", "behaviour.x near 1", "behaviour.x above nan", "behaviour.x above inf"),
    *("behaviour.x above 1e999", "behaviour.x above 1; and then", "[" * 5000, "x above __import__"),
)


@pytest.mark.parametrize("watches", UNREADABLE)
def test_what_cannot_be_read_is_no_all_clear(tmp_path: Path, watches: str) -> None:
    skill = _skill(tmp_path, watches)
    assert watches_of(skill) == []
    assert checked(skill, read_foreign(made(lambda t, s: {})).to_json())[0] == 3


@pytest.mark.parametrize("metric", ["(s|h|a|.)*.(\\w+\\w+)+$", "*a" * 20_000, "*." * 20_000, ""])
def test_a_strangers_metric_is_no_pattern(tmp_path: Path, metric: str) -> None:
    watch = Watch(metric, "above", 0.0)
    assert all(read == watch for read in watches_of(_skill(tmp_path, watch.text)))
    shows, why = look(watch, read_foreign(made(lambda t, s: {})).to_json())
    assert not shows and why


def _skill(tmp_path: Path, watches: str) -> Skill:
    folder = tmp_path / "demo"
    folder.mkdir()
    head = (
        f"name: demo\ndescription: a demo\nmetadata:\n  meta-agent.watches: {json.dumps(watches)}"
    )
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\nwords\n")
    skill = load_skill(folder)
    assert skill is not None
    return skill
