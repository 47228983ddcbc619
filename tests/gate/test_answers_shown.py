"""Answers that were shown, overlapping texts and special cases: what is read off whole records."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from meta_agent.core.gate import near_overlap
from meta_agent.core.gate.validity._special import special_cases
from meta_agent.core.protocols import Outcome, Rollout, ToolEvent
from tests.gate._records_shown import EDITS_FIRST, EXAMPLES, GIT_LOG, ISSUE_TEXT, SHOWN, inspected

from ._records import ISSUE, PATCH, inspect, rollout, shell

GOLD_FILE = (
    "def price(basket, customer):\n" + SHOWN + "\n    check_stock(basket)\n    log_sale(basket)"
)
GOLD_PATCH = "\n".join(f"+{line}" for line in GOLD_FILE.splitlines())
WRITES = shell("cat > shop/basket.py <<'E'\n" + GOLD_FILE + "\nE", turn=1)
RENAMED = SHOWN.replace("total", "amount")


def _told(*contents: str) -> list[dict[str, str]]:
    """Messages of the harness, an assistant's reply after each."""
    made = []
    for content in contents:
        made += [{"role": "user", "content": content}, {"role": "assistant", "content": "on it"}]
    return made


LEAKS: dict[str, Callable[[int], Rollout]] = {
    "in the opening": lambda i: rollout(i, messages=_told(ISSUE + PATCH)),
    "in a later message": lambda i: rollout(i, messages=_told(ISSUE, "Hint:\n" + SHOWN)),
    "in the opening, and shown again by the agent": lambda i: rollout(
        i, EDITS_FIRST, shell("cat shop/basket.py", SHOWN, turn=1), messages=_told(ISSUE + PATCH)
    ),
    "in the opening, a name changed": lambda i: rollout(i, messages=_told(ISSUE + RENAMED)),
    "as a diff in a file of any name": lambda i: rollout(
        i, shell("cat notes.txt", PATCH), EDITS_FIRST
    ),
    "as a diff that is applied": lambda i: rollout(
        i, shell("cat notes.txt", PATCH), shell("git apply notes.txt")
    ),
    "as a file of any name": lambda i: rollout(
        i, shell("cat .cache/b1", GOLD_FILE), WRITES, verifier_inputs={"patch": GOLD_PATCH}
    ),
    "as a file of any name, a name changed": lambda i: rollout(
        i, shell("cat .cache/b1", GOLD_FILE.replace("total", "amount")), WRITES,
        verifier_inputs={"patch": GOLD_PATCH},
    ),
    "in the history, a name changed": lambda i: rollout(
        i, shell("git log -p -3", RENAMED), EDITS_FIRST
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEAKS)
def test_an_answer_is_found_wherever_it_was_shown(name: str) -> None:
    views = {f"t{index:04d}": ISSUE for index in range(60)}
    made = [LEAKS[name](i) for i in range(60)]
    found = inspect(made, views=views)
    assert {f.code: f.severity for f in found} == {"conduct.copied_answer": "veto"}
    assert {f.severity for f in inspect(made, made, views=views)} == {"warn"}


def _brought(index: int, *turns: tuple[str, str], opening: str = ISSUE) -> Rollout:
    """An attempt by an agent that ran as a command: its calls stand in its conversation only."""
    messages: list[dict[str, object]] = [{"role": "user", "content": opening}]
    for number, (command, result) in enumerate(turns):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": result},
        ]
    ended = ToolEvent(len(turns) - 1, "agent", {"command": "mini --task ..."}, "[exit 0]", True)
    return rollout(index, ended, messages=messages, turns=len(turns))


WRITTEN = ("cat > shop/basket.py <<'E'\n" + SHOWN + "\nE", "")
STANDS_ALREADY = ("git log --oneline | head -3; cat shop/invoice.py", "940d375 the task\n" + SHOWN)


def test_an_agent_that_looks_at_its_own_diff_copies_nothing() -> None:
    assert not inspected(lambda i: _brought(i, WRITTEN, ("git diff", PATCH)))
    assert not inspected(lambda i: _brought(i, STANDS_ALREADY, WRITTEN))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda i: _brought(i, WRITTEN, opening=ISSUE + PATCH),
        lambda i: _brought(i, ("git log -p -3", SHOWN), WRITTEN),
        lambda i: _brought(i, ("git log --oneline -p", SHOWN), WRITTEN),
        lambda i: _brought(i, ("git log --oneline -U3", SHOWN), WRITTEN),
        lambda i: _brought(i, ("git log --oneline -1;git show 940d375", SHOWN), WRITTEN),
        lambda i: _brought(i, ("cat notes.txt", PATCH), WRITTEN),
    ],
)
def test_an_answer_that_such_an_agent_was_shown_is_found(attempt: Callable[[int], Rollout]) -> None:
    views = {f"t{index:04d}": ISSUE for index in range(60)}
    found = inspect((attempt(i) for i in range(60)), views=views)
    assert {f.code: f.severity for f in found} == {"conduct.copied_answer": "veto"}


def test_outcomes_that_the_grader_confirms_are_fine() -> None:
    made = inspected(lambda i: rollout(i), grade=lambda key, inputs: Outcome(True))
    assert not made


CLEAN_TEXTS = {
    "other problems": ([ISSUE_TEXT], {"b": "The parser loses the last line of every file."}),
    "prompts that are short by nature": (["vets 3?"], {"b": "vets 3?"}),
    "a shared opening": (
        ["You are given a repository with a failing test. " + ISSUE_TEXT],
        {"b": "You are given a repository with a failing test. " + "word other thing " * 9},
    ),
}


@pytest.mark.parametrize("name", CLEAN_TEXTS)
def test_texts_of_different_tasks_do_not_overlap(name: str) -> None:
    assert not near_overlap(*CLEAN_TEXTS[name])


SPELLINGS = [
    ("def f(n):\n    return {4: 'IV', 9: 'IX', 40: 'XL'}[n]\n", 3),
    ("def f(n):\n    return {4: 'IV', 9: 'IX', 40: 'XL'}.get(n, '')\n", 3),
    (
        "def f(n):\n    match n:\n        case 4:\n            return 'IV'\n        case 9:\n"
        "            return 'IX'\n        case 40:\n            return 'XL'\n",
        3,
    ),
    ("f = lambda n: 'IV' if n == 4 else 'IX' if 9 == n else 'XL' if n == 40 else ''\n", 3),
    ("def f(n):\n    return ['IV', 'IX', 'XL'][n % 3]\n", 0),
    ("def f(:\n", 0),
]


@pytest.mark.parametrize(("source", "pairs"), SPELLINGS)
def test_special_cases_are_seen_however_they_are_spelled(source: str, pairs: int) -> None:
    assert len(special_cases(source, EXAMPLES)) == pairs


def test_a_patch_shows_the_lines_that_it_adds_and_no_others() -> None:
    removed = PATCH.replace("+    ", "-    ")
    assert not inspected(lambda i: rollout(i, GIT_LOG, verifier_inputs={"patch": removed}))
