"""The math harness for real models: through the runner, with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _scaffold_play import Cut, Play, broken_call, call, shipped, write_rows

from meta_agent.core.harness import HarnessSession
from meta_agent.domains.math import MathDomain, Verifier
from meta_agent.sandboxes import open_sandbox

PROBLEM = {"problem": "What is 6 times 7?", "answer": "42", "split": "search"}
PROGRAM = "Let me see.\n```python\nprint(6 * 7)\n```"
BOXED = r"So it is \boxed{42}."


@pytest.fixture(scope="module")
def session() -> Iterator[HarnessSession]:
    sandbox = open_sandbox("process", run="test-math-scaffold")
    yield HarnessSession(sandbox, shipped("math"))
    sandbox.close()


@pytest.fixture(scope="module")
def play(session: HarnessSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    path = write_rows(tmp_path_factory.mktemp("math") / "set.jsonl", PROBLEM)
    domain = MathDomain(path, Verifier(), lambda: open_sandbox("process", run="test-math"))
    yield Play(domain, session)
    domain.close()


def test_a_boxed_reply_is_handed_in_at_once(play: Play, session: HarnessSession) -> None:
    row, gateway = play(BOXED)
    assert (row.outcome, row.stop_reason, row.turns, row.error) == (True, "submitted", 1, None)
    asked = gateway.asked[0]
    assert asked.tools is not None
    assert [tool["function"]["name"] for tool in asked.tools] == ["python", "submit"]
    assert "42" not in str(asked.messages)
    assert session.reward([row]) == [{"solved": 1.0, "answered": 1.0}]


@pytest.mark.parametrize(
    "program",
    [
        PROGRAM,
        call("python", code="print(6 * 7)"),
        '<tool_call>\n{"name": "python", "arguments": {"code": "print(6 * 7)"}}\n</tool_call>',
        "\\boxed{41}? Let me check.\n```python\nprint(6 * 7)\n```",
    ],
    ids=["block", "native", "tagged", "a box before the check"],
)
def test_a_program_runs_in_a_sandbox_and_its_output_is_read(play: Play, program: Any) -> None:
    row, gateway = play(program, BOXED)
    assert [event.tool for event in row.tool_events] == ["python", "submit"]
    assert str(gateway.asked[1].messages[-1]["content"]).startswith("42\n[exit 0]")
    assert row.outcome is True


def test_a_native_submit_takes_the_bare_answer(play: Play) -> None:
    row, _ = play(call("submit", answer="42"))
    assert (row.outcome, row.turns) == (True, 1)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("It is surely 42.", "box"),
        (Cut("First, I note that"), "length"),
        (broken_call("python"), "JSON"),
        (call("fly"), "'fly'"),
        (call("python"), "code"),
        (call("python", code="1/0"), "ZeroDivisionError"),
        (call("python", code="import os; os.kill(os.getppid(), 9)"), "["),
    ],
)
def test_a_reply_that_leads_nowhere_is_answered(play: Play, said: Any, answer: str) -> None:
    row, gateway = play(said, BOXED)
    assert (row.error, row.outcome) == (None, True)
    assert answer in str(gateway.asked[1].messages[-1]["content"])
    assert all(str(m["content"]).strip() or m.get("tool_calls") for m in gateway.asked[1].messages)


def test_the_last_turn_asks_for_the_answer_and_none_is_made_up(play: Play) -> None:
    row, gateway = play("Hm.")
    assert (row.stop_reason, row.turns, row.outcome) == ("returned", 6, False)
    assert "last reply" in str(gateway.asked[-1].messages[-1]["content"])
    assert row.outcome_detail == {"verdict": "no_answer"}


def test_a_conversation_that_outgrows_its_budget_is_asked_for_the_answer(play: Play) -> None:
    row, gateway = play("x" * 70_000)
    assert row.turns == 2
    assert "last reply" in str(gateway.asked[-1].messages[-1]["content"])


def test_calls_after_the_answer_are_not_carried_out(play: Play) -> None:
    row, _ = play([*call("submit", "a", answer="42"), *call("python", "b", code="print(1)")])
    assert [event.tool for event in row.tool_events] == ["submit"]
    assert row.outcome is True


def test_without_a_sandbox_no_program_is_on_offer(session: HarnessSession, tmp_path: Path) -> None:
    domain = MathDomain(write_rows(tmp_path / "set.jsonl", PROBLEM), Verifier())
    row, gateway = Play(domain, session)(PROGRAM, BOXED)
    assert gateway.asked[0].tools and len(gateway.asked[0].tools) == 1
    assert "python" not in str(gateway.asked[0].messages).lower()
    assert row.outcome is True


def test_the_harness_keeps_its_contract(session: HarnessSession, play: Play) -> None:
    rows = [play(PROGRAM, BOXED)[0], play(Cut("I think"))[0], play(r"\boxed{41}")[0]]
    tasks = [{"key": "a", "view": {"problem": "x"}}]
    results = session.check(rows, tasks)
    assert results and all(result.ok for result in results), results
    values = {m.name: m for m in session.measure(rows)}
    assert all(measurement.failure is None for measurement in values.values())
    third = pytest.approx(1 / 3)
    assert values["answers"].values == {"unanswered_share": third, "unreadable_share": 0.0}
    assert values["endings"].values["cut_reply_share"] == third
    assert values["working"].values["calculated_share"] == third
    assert [reward["answered"] for reward in session.reward(rows)] == [1.0, 0.0, 1.0]
    assert session.order(tasks, {}) == ["a"]
    assert session.recipe.num_generations == 8
