"""The questions that `meta-agent approve` lists."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from meta_agent.core.display import DecisionView
from meta_agent.core.ledger import Ledger
from meta_agent.reports import RunState, reduce, run_sections
from meta_agent.reports.terminal.paint import painted

from .sample import HOSTILE, write_sample


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompt") / "ledger.sqlite"
    write_sample(path, waits_for="g1/c2")
    return path


def printed(drawing: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=140).print(drawing)
    return stream.getvalue()


@pytest.fixture
def state(waiting: Path) -> RunState:
    with Ledger.open(waiting, owner_lock=False) as ledger:
        return reduce(ledger)


def test_before_a_test_the_question_shows_idea_change_and_cost(state: RunState) -> None:
    shown = printed(painted(run_sections.questions(state)))
    for part in (
        "g1/c2: may it be tested?",
        "if the recipe counts tests",
        "signal.dead_group_ratio down by 0.1",
        "swe/recipe.py",
        "$0.2387",
        "meta-agent approve g1/c2",
    ):
        assert part in shown


def test_before_a_merge_the_question_shows_the_verdict_with_its_numbers(state: RunState) -> None:
    verdict = {
        "kind": "PROMOTE",
        "reasons": ["better", HOSTILE],
        "effect": {"delta": 0.1, "ci_low": 0.04, "ci_high": 0.16, "pairs": 512},
        "evidence": {"findings": [{"code": "infra.lost", "severity": "note", "message": "two"}]},
    }
    decision = DecisionView("k", "merge", "g0/c0", "r1/g0/c0", None, verdict=verdict)
    shown = printed(painted(run_sections.questions(replace(state, decisions=[decision]))))
    for part in ("may it be merged?", "PROMOTE", "[+4.0, +16.0]", "512 pairs", "infra.lost: two"):
        assert part in shown
    assert "\x1b[2J" not in shown and "\u202e" not in shown
