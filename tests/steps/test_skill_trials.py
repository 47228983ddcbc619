"""A skill's trial: what could tell nothing is refused before anything is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.skills import SkillLibrary
from meta_agent.studies._figures import Result
from meta_agent.studies.conditions import Comparison
from meta_agent.studies.skill_trials import WITH, WITHOUT, declare_trial, first_proof
from tests.steps._frozen_run import settings

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
    with pytest.raises(ConfigError, match="demo"):
        declare_trial(config, [library.skill("demo")], 1, tmp_path / "trial")
    assert not (tmp_path / "trial").exists()


def ended(side: str, seed: int, proven_after: int | None) -> Result:
    standing = "proven" if proven_after else "start"
    more = (standing, proven_after, 0, None, {}, (), {}, (), 1.0)
    return Result(side, seed, "w", (1, 0), 0.5, 1, 900, 1, *more)


def test_what_was_not_proven_costs_the_whole_budget(tmp_path: Path) -> None:
    found = {WITH: [300, 700, None], WITHOUT: [500, None, None]}
    results = [ended(side, seed, one) for side in found for seed, one in enumerate(found[side])]
    results.append(ended(WITH, 3, 100))  # its pair has not ended
    comparison = Comparison(tmp_path, (WITH, WITHOUT), (0, 1, 2, 3), 1000, 1, RunConfig(), {})
    told = first_proof(comparison, results)
    assert told["seeds"] == [0, 1, 2] and {side: told[side] for side in found} == found
    seen = told["difference"]
    assert seen["value"] == pytest.approx((-200 - 300 + 0) / 3)
    assert seen["low"] < seen["value"] < seen["high"] <= 0
