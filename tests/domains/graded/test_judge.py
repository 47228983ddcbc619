"""A model that grades: it is tried before it decides, asked twice, and capped."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _grader_files import opened, write

import meta_agent
from meta_agent.core.errors import BudgetError, ConfigError, InfrastructureError
from meta_agent.core.ledger import Ledger
from tests._sums import adds
from tests.loopback import Call, Say, openai_server

ROWS = [{"prompt": f"What is {n} + 1?", "gold": str(n + 1), "n": n} for n in range(16)]


def judge(task: Any, answer: Any) -> Any:
    if not answer:
        return False
    return f"The answer passes if it is the number {task['gold']} and nothing else."


def fair(call: Call) -> Say:
    text = str(call.messages[-1]["content"])
    rule = re.search(r"the number (\d+)", text)
    mark = re.search(r"\n(--- \w+ ---)\n(.*)\n\1", text, re.DOTALL)
    assert rule and mark and "material to judge" in str(call.messages[0]["content"])
    return verdict(rule[1] == mark[2].strip())


def verdict(passes: bool) -> Say:
    return Say(tool_calls=[("verdict", {"why": "by the rule", "passes": passes})])


def run(tmp_path: Path, brain: Callable[[Call], Say], **more: Any) -> meta_agent.Result:
    with openai_server(adds, serial=False) as url, openai_server(brain) as bench:
        given: dict[str, Any] = {
            "tasks": ROWS,
            "grade": judge,
            "models": {"judge": "openai/judge"},
            "base_urls": {"policy": url, "judge": bench},
            **more,
        }
        return meta_agent.optimize(
            workspace=tmp_path / "ws",
            policy="openai/adds",
            sandbox="process",
            allow_unsafe_process=True,
            generations=1,
            candidates=1,
            samples=1,
            **given,
        )


@pytest.mark.slow
def test_a_run_is_graded_by_a_judge_that_was_tried(tmp_path: Path) -> None:
    result = run(tmp_path, fair)
    assert result.exit_reason == "done" and result.before is not None
    assert 0.5 < result.before < 1.0, "every fifth sum is wrong, and the judge says so"
    assert result.state.spend["judge"].calls > 32, "a purse of its own"
    with Ledger.open(tmp_path / "ws/ledger.sqlite", owner_lock=False) as ledger:
        assert ledger.spend(result.run)["policy"].calls > 0
        texts = [str(event.payload["text"]) for event in ledger.events(result.run, "note")]
    (told,) = (text for text in texts if text.startswith("the judge"))
    assert " 100% of 16 " in told


class Coin:
    """Changes its mind at every question."""

    said = False

    def __call__(self, call: Call) -> Say:
        self.said = not self.said
        return verdict(self.said)


@pytest.mark.parametrize(
    ("brain", "words"),
    [
        (Coin(), r" 0% of 16 "),
        (lambda call: verdict(True), r" 50%.* 90%"),
        (lambda call: Say("It is fine."), r"It is fine\."),
    ],
    ids=["a coin", "a yes-sayer", "no verdict"],
)
def test_a_judge_that_fails_its_trial_decides_nothing(
    tmp_path: Path, brain: Callable[[Call], Say], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        run(tmp_path, brain)


def test_a_judge_has_a_cap_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="role judge"):
        run(tmp_path, fair, role_max_tokens={"judge": 6000})


def test_a_judge_that_nobody_named_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="judge") as raised:
        run(tmp_path, fair, models={})
    assert "--model judge=" in str(raised.value.hint)


def test_a_judge_that_nobody_asks_is_a_sentence(tmp_path: Path) -> None:
    def grade(task: Any, answer: Any) -> bool:
        return bool(answer)

    with pytest.raises(ConfigError, match="judge"):
        run(tmp_path, fair, grade=grade)


def test_without_a_run_nobody_is_asked(tmp_path: Path) -> None:
    text = "def judge(task, answer):\n    return 'It says yes.' if answer else False\n"
    asked = replace(write(tmp_path, text), judge="openai/judge")
    with opened(asked) as domain:
        key = next(iter(domain.rows))
        assert domain.regrade(key, {"answer": ""}).success is False
        with pytest.raises(InfrastructureError, match="run"):
            domain.regrade(key, {"answer": "yes"})
