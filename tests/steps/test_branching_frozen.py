"""Every strategy that branches finishes a tiny run on a frozen policy behind a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent import proposers
from meta_agent.composition.evolve import evolve
from meta_agent.proposers import RulesAgent
from meta_agent.reports import open_display
from tests.loopback import openai_server
from tests.steps._frozen_program import proposals, settings
from tests.steps._kit import policy, write_tasks

pytestmark = pytest.mark.slow
WAYS = ("frontier", "archive", "islands", "pareto", "tree", "specialists", "bilevel")


@pytest.mark.parametrize("name", WAYS)
def test_each_finds_the_edit_that_helps_and_is_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(proposers, "RulesAgent", lambda: RulesAgent(proposals))
    tasks = write_tasks(tmp_path / "tasks")
    with openai_server(policy(), serial=False) as url:
        more = {"strategy": name, "generations": 2, "candidates": 1, "budget": 60}
        state = evolve(settings(tmp_path / "w", tasks, url, **more), open_display(live=False))
    assert state.exit_reason == "done" and state.handover
    assert state.handover["standing"] in ("proven", "unproven")
    (candidate, *_) = state.candidates.values()
    assert candidate.factor == "scaffold" and str(candidate.kind) == "PROMOTE"
