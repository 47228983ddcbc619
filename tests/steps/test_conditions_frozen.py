"""Conditions with a frozen policy: nothing is trained, so attempts are the budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent import proposers
from meta_agent.composition.evolve import evolve
from meta_agent.proposers import RulesAgent
from meta_agent.reports import open_display
from meta_agent.studies.conditions import carry_out, declare
from meta_agent.studies.conditions_results import report, results_of
from tests.loopback import openai_server
from tests.steps._frozen_run import proposals, settings
from tests.steps._kit import policy, write_tasks

pytestmark = pytest.mark.slow


def test_static_samples_the_version_as_it_is_and_a_score_keeps_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposers, "RulesAgent", lambda: RulesAgent(proposals))
    tasks = write_tasks(tmp_path / "tasks")
    with openai_server(policy(), serial=False) as url:
        config = settings(tmp_path / "unused", tasks, url)
        comparison = declare(config, ["static", "score-only"], 1, tmp_path / "compared")
        stopped = carry_out(comparison, evolve, lambda _: open_display())
        told = report(comparison, results_of(comparison))
    assert not stopped and not told["unfinished"]
    static, score = told["arms"]["static"], told["arms"]["score-only"]
    assert static["mean"]["value"] == 0.0 and static["spent"] == 0
    assert score["mean"]["value"] == 1.0 and score["versus"]["static"]["difference"]["value"] == 1.0
    assert score["promotions"] == 1 and score["invalid_promotions"] == 0
    assert 0 < score["spent"] <= comparison.budget
    assert score["tokens"] > static["tokens"] > 0
