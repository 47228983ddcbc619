"""A skill's trial: what could tell nothing is refused before anything is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.errors import ConfigError
from meta_agent.skills import SkillLibrary
from meta_agent.studies.skill_trials import declare_trial
from tests.steps._frozen_program import settings

SKILL = """---
name: demo
description: "Helps: the habit."
metadata:
  meta-agent.rule: "the-habit"
  meta-agent.origin: "elsewhere"
---

# Demo
"""


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    folder = tmp_path / "mine/demo"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    return SkillLibrary(folder.parent)


def test_a_trial_that_could_tell_nothing_is_refused(tmp_path: Path, library: SkillLibrary) -> None:
    text = (library.path / "demo/SKILL.md").read_text()
    (library.path / "demo/SKILL.md").write_text(
        text.replace('  meta-agent.rule: "the-habit"\n', "")
    )
    config = settings(tmp_path / "unused", tmp_path / "none.jsonl", "http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match="names none"):
        declare_trial(config, library.skill("demo"), 1, tmp_path / "trial")
    assert not (tmp_path / "trial").exists()
