"""Every strategy that branches finishes a tiny run on a frozen policy; all but one nightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent import proposers
from meta_agent.composition.evolve import evolve
from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import HarnessTree, Hypothesis
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.reports import open_display
from tests.loopback import Call, Say, openai_server

pytestmark = pytest.mark.slow
WAYS = ("frontier", "archive", "islands", "tree", "specialists", "bilevel")
PROMPTS = "agent/prompts.py"
HABIT = "The answer is always 42."
GRADER = "def grade(task, answer):\n    return answer.strip() == task['gold']\n"


def habitual(call: Call) -> Say:
    """Knows the answer only if the system prompt has the habit."""
    return Say("42" if HABIT in str(call.messages[0]["content"]) else "no idea")


def proposals(_evidence: Any, tree: HarnessTree, *_: Any, **__: Any) -> list[Proposal]:
    text = tree.files[PROMPTS].decode()
    if HABIT in text:
        return []
    idea = Hypothesis("scaffold", "if habit", "clean_success", "up", 0.5, rule="habit")
    edits = {PROMPTS: text.replace("- Look things up", f"- {HABIT}\n- Look things up")}
    return [Proposal(idea, "feat: a habit", edits, 1.0)]


@pytest.mark.parametrize(
    "name", ["pareto", *(pytest.param(name, marks=pytest.mark.nightly) for name in WAYS)]
)
def test_each_finds_the_edit_that_helps_and_is_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(proposers, "RulesAgent", lambda: RulesAgent(proposals))
    rows = ({"prompt": f"Question {n}", "gold": "42"} for n in range(24))
    (tmp_path / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "grader.py").write_text(GRADER)
    with openai_server(habitual, serial=False) as url:
        config = RunConfig(
            workspace=tmp_path / "w",
            domain="graded",
            tasks=tmp_path / "tasks.jsonl",
            grade=tmp_path / "grader.py",
            policy="openai/habitual",
            base_urls={"policy": url},
            sandbox="process",
            allow_unsafe_process=True,
            strategy=name,
            generations=2,
            candidates=1,
            samples=1,
        )
        state = evolve(config, open_display())
    assert state.exit_reason == "done" and state.handover
    assert state.handover["standing"] == "proven"
    (candidate, *_) = state.candidates.values()
    assert candidate.factor == "scaffold" and str(candidate.kind) == "PROMOTE"
