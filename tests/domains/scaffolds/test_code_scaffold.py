"""The code harness for real models: through the runner, with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _scaffold_play import Cut, Play, broken_call, call, shipped, write_rows

from meta_agent.core.harness import HarnessSession
from meta_agent.domains.code import CodeDomain, code_runner
from meta_agent.sandboxes import open_sandbox

PROMPT = (
    'def double(x: int) -> int:\n    """Twice as much.\n    >>> double(2)\n    4\n'
    '    >>> double(-1)\n    -2\n    """\n'
)
FUNCTION = {
    "task_id": "HumanEval/900",
    "prompt": PROMPT,
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(5) == 10\n    assert candidate(0) == 0\n",
    "split": "search",
}
PUBLIC = '[{"input": "1 2", "output": "3", "testtype": "stdin"}]'
PRIVATE = '[{"input": "10 20", "output": "30", "testtype": "stdin"}]'
PROGRAM = {
    "question_title": "Sum",
    "question_content": "Print the sum.",
    "question_id": "sum",
    "public_test_cases": PUBLIC,
    "private_test_cases": PRIVATE,
    "split": "search",
}
DOUBLE, WRONG = "def double(x):\n    return x + x\n", "def double(x):\n    return x * x\n"
TAGGED = '<tool_call>{"name": "run", "arguments": {"code": "print(1)"}}</tool_call>'
SUM = "print(sum(map(int, input().split())))\n"


@pytest.fixture(scope="module")
def session() -> Iterator[HarnessSession]:
    sandbox = open_sandbox("process", run="test-code-scaffold")
    yield HarnessSession(sandbox, shipped("code"))
    sandbox.close()


def playing(session: HarnessSession, path: Path, row: Any) -> Iterator[Play]:
    runner = code_runner("process", run="test-code-scaffold", candidates_per_sandbox=40)
    yield Play(CodeDomain(write_rows(path, row), runner), session)
    runner.close()


@pytest.fixture(scope="module")
def play(session: HarnessSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """On a HumanEval row."""
    yield from playing(session, tmp_path_factory.mktemp("code") / "set.jsonl", FUNCTION)


@pytest.fixture(scope="module")
def stdio(session: HarnessSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """On a LiveCodeBench row."""
    yield from playing(session, tmp_path_factory.mktemp("code") / "set.jsonl", PROGRAM)


def block(tool: str, body: str) -> str:
    return f"So:\n```{tool}\n{body}```"


def test_a_model_that_writes_blocks_solves_the_task(play: Play, session: HarnessSession) -> None:
    row, gateway = play(block("test", WRONG), block("test", DOUBLE), block("submit", DOUBLE))
    assert (row.outcome, row.flags, row.stop_reason, row.error) == (True, [], "submitted", None)
    assert [event.ok for event in row.tool_events] == [False, True, True]
    assert "FAIL double(-1) gives 1 stated -2" in row.tool_events[0].result
    assert row.tool_events[1].result.count("ok ") == 2
    assert gateway.asked[0].tools and len(gateway.asked[0].tools) == 3
    assert "check(candidate)" not in str(gateway.asked)
    assert session.reward([row]) == [{"solved": 1.0, "submitted": 1.0, "conduct": 0.0}]


def test_a_model_with_native_calls_solves_the_task(stdio: Play) -> None:
    row, gateway = stdio(call("run", code=SUM, stdin="4 5"), call("submit", code=SUM))
    assert row.outcome is True
    assert gateway.asked[1].messages[-1]["content"] == "9\n[exit 0]"
    assert gateway.asked[1].messages[-1]["tool_call_id"] == "c1"


def test_the_public_tests_of_a_program_are_its_examples_and_no_others(stdio: Play) -> None:
    row, gateway = stdio(block("test", "print(3)\n"), block("test", "print(4)\n"))
    first, second = (gateway.asked[turn].messages[-1]["content"] for turn in (1, 2))
    assert first == "example 1: ok\n[1 of 1 examples pass]"
    assert "stated:\n3\ngot:\n4" in str(second)
    assert "30" not in str(gateway.asked[-1].messages)
    assert row.outcome is False


def test_an_input_in_a_block_reaches_the_program(stdio: Play) -> None:
    row, _ = stdio(block("run", f"{SUM}--- stdin ---\n7 8\n"), block("submit", SUM))
    assert row.tool_events[0].result == "15\n[exit 0]"
    assert row.outcome is True


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("I would add them.", "tool"),
        (Cut("```submit\ndef"), "length"),
        (broken_call("test"), "JSON"),
        (call("fly", code="x"), "'fly'"),
        (call("test"), "code"),
        (block("run", "1/0\n"), "ZeroDivisionError"),
        (block("test", "def double(\n"), "SyntaxError"),
        (TAGGED, "1\n[exit 0]"),
    ],
)
def test_a_reply_that_leads_nowhere_is_answered(play: Play, said: Any, answer: str) -> None:
    row, gateway = play(said, block("test", DOUBLE), block("submit", DOUBLE))
    assert (row.error, row.outcome) == (None, True)
    assert answer in str(gateway.asked[1].messages[-1]["content"])


def test_the_last_block_counts_and_plain_python_is_handed_in(play: Play) -> None:
    said = f"First idea:\n```python\n{WRONG}```\nNo, better:\n```python\n{DOUBLE}```"
    row, gateway = play(said)
    assert (row.outcome, row.turns) == (True, 2)
    assert "never been run" in str(gateway.asked[1].messages[-1]["content"])


def test_the_last_turn_hands_in_and_asks_nothing(play: Play) -> None:
    row, _ = play(*["I think."] * 7, block("submit", DOUBLE))
    assert (row.stop_reason, row.turns, row.outcome) == ("submitted", 8, True)


def test_calls_of_one_reply_after_the_end_are_not_carried_out(play: Play) -> None:
    both = [*call("submit", "b", code=DOUBLE), *call("run", "c", code="print(1)")]
    row, _ = play([*call("test", "a", code=DOUBLE), *both])
    assert [event.tool for event in row.tool_events] == ["test", "submit"]


def test_turns_end_with_a_warning(play: Play) -> None:
    row, gateway = play(block("run", "print(1)\n"))
    assert (row.stop_reason, row.turns, row.outcome) == ("returned", 8, False)
    assert "turns left" in str(gateway.asked[-1].messages[-1]["content"])


def test_long_output_is_cut_and_old_output_leaves_the_context(play: Play) -> None:
    row, gateway = play("x" * 15_000 + "\n" + block("run", "print('y' * 100_000)\n"))
    last = gateway.asked[-1].messages
    assert any(message["content"] == "[older output left out]" for message in last)
    assert all(len(event.result) < 5000 for event in row.tool_events)


def test_a_program_that_kills_its_sandbox_is_told_and_is_no_infrastructure_error(
    play: Play,
) -> None:
    killer = block("run", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n")
    row, _ = play(*[killer] * 5, block("test", DOUBLE), block("submit", DOUBLE))
    assert row.error is None
    assert row.stop_reason == "submitted"


def test_the_harness_keeps_its_contract(session: HarnessSession, play: Play) -> None:
    rows = [
        play(block("test", DOUBLE), block("submit", DOUBLE))[0],
        play(block("test", WRONG), block("submit", WRONG))[0],
        play(block("submit", "def double(\n"))[0],
        play("Hm.")[0],
    ]
    tasks = [{"key": "a", "view": {"problem": "x"}}]
    results = session.check(rows, tasks)
    assert results and all(result.ok for result in results), results
    values = {m.name: m for m in session.measure(rows)}
    assert all(measurement.failure is None for measurement in values.values())
    third = pytest.approx(1 / 3)
    assert values["verification"].values == {
        "verified_share": third,
        "against_a_failure_share": third,
    }
    assert values["endings"].values["unsubmitted_share"] == 0.25
    assert values["verdicts"].values["wrong_answer_share"] == 0.25
    assert values["verdicts"].values["no_program_share"] == 0.5
    assert session.order(tasks, {}) == ["a"]
    assert session.recipe.groups_per_step == 8
