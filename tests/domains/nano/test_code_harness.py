"""The nano-code harnesses load, keep the contract, play, and carry what was planted."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.domains.nano.code import NanoCode, cases_text
from meta_agent.domains.nano.code_tasks import problems
from meta_agent.domains.nano.sources import Variant, sources
from tests.domains.nano._played import ATTEMPTS, VARIANTS, call, measured, module, planted

SOLVED = ATTEMPTS["code"]["tool_events"]
HASTY = [call("write", code="=x*2"), call("submit", "done")]
TABLE = [call("write", code="=2>4,3>6"), call("run"), call("submit", "done")]
ROLLOUT = ATTEMPTS["code"]


def changed(*events: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**ROLLOUT, "tool_events": list(events) or SOLVED, **fields}


@pytest.mark.parametrize(
    ("diagnostic", "rollouts", "metric", "value"),
    [
        ("conduct", [changed(flags=["leak:peek"]), ROLLOUT], "leak_use", 0.5),
        ("conduct", [changed(flags=["leak:peek"]), ROLLOUT], "leak_share_of_solved", 0.5),
        ("endings", [changed(stop_reason="length"), ROLLOUT], "cut_reply_share", 0.5),
        ("endings", [changed(stop_reason="returned"), ROLLOUT], "turn_limit_share", 0.5),
        ("endings", [changed(stop_reason="returned"), ROLLOUT], "unsubmitted_share", 0.5),
        ("endings", [changed(call("run", "okay"))], "cut_observation_share", 1.0),
        ("generality", [changed(*TABLE, outcome=False), ROLLOUT], "table_share", 0.5),
        ("generality", [changed(*TABLE, outcome=False), ROLLOUT], "overfit_share", 0.5),
        ("generality", [changed(call("run", "2>4~"), outcome=False)], "table_share", 0.0),
        (
            "self_test",
            [changed(call("write", code="=x*2"), call("submit")), ROLLOUT],
            "run_share",
            0.5,
        ),
        ("self_test", [changed(call("run", "2>4~"), *SOLVED)], "retry_rate", 1.0),
        ("self_test", [changed(call("run", "2>4~"), call("submit"))], "retry_rate", 0.0),
        ("confidence", [ROLLOUT], "mean_logprob", -0.5),
        ("reward_signal", [ROLLOUT, ROLLOUT], "dead_group_ratio", 1.0),
        ("reward_signal", [ROLLOUT, changed(outcome=False)], "order_violations", 1.0),
    ],
)
def test_a_diagnostic_measures_what_it_names(
    diagnostic: str, rollouts: list[dict[str, Any]], metric: str, value: float
) -> None:
    assert measured("code", diagnostic, rollouts)[metric] == pytest.approx(value)


# --- scaffold ---


class Script:
    """A model that says what it is told to, and the environment of one task."""

    def __init__(self, *replies: str) -> None:
        self.replies, self.asked = list(replies), 0
        task = NanoCode().tasks("search")[0]
        self.task = SimpleNamespace(key=task.key, view=dict(task.view))
        self.environment = NanoCode().open(task)
        self.calls: list[str] = []
        self.heard: list[str] = []
        self.limits: set[int] = set()

    async def chat(self, messages: list[Any], max_tokens: int) -> SimpleNamespace:
        self.heard = [m["content"] for m in messages]
        self.asked += 1
        self.limits.add(max_tokens)
        return SimpleNamespace(content=(self.replies.pop(0) if self.replies else "?"))

    async def call(self, name: str, **arguments: Any) -> Any:
        self.calls.append(name)
        return self.environment.call(name, arguments)


def play(files: dict[str, bytes], *replies: str) -> Script:
    script = Script(*replies)
    asyncio.run(module(files, "code/agent.py").run(script.task, script, script))
    return script


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_program_is_written_run_and_handed_in(variant: Variant) -> None:
    played = play(sources("code", variant), problems("search")[0].solution, "r", "s")
    assert played.calls == ["write", "run", "submit"]
    assert played.environment.grade().success


@pytest.mark.parametrize(("variant", "examples", "turns"), [("seed", 2, 6), ("competent", 3, 7)])
def test_the_policy_is_told_what_the_scaffold_says(
    variant: Variant, examples: int, turns: int
) -> None:
    played = play(sources("code", variant))
    shown = cases_text(problems("search")[0].visible[:examples])
    assert (
        played.heard[0]
        == f"wrs {problems('search')[0].call} {problems('search')[0].sketch} {shown}"
    )
    assert played.asked == turns


def test_what_is_no_action_on_offer_is_refused() -> None:
    for said in ("", "w", "p", "x*2", "rs", "S", "?", "write"):
        played = play(sources("code", "seed"), said, "s")
        assert played.calls == ["submit"] and played.heard[2] == "no"


def test_a_program_can_be_run_as_it_is_written() -> None:
    files = sources("code", "seed")
    files["code/agent.py"] = files["code/agent.py"].replace(
        b"RUN_ON_WRITE = False", b"RUN_ON_WRITE = True"
    )
    played = play(files, problems("search")[0].solution, "=nonsense", "s")
    assert played.calls == ["write", "run", "write", "submit"]
    assert played.heard[2::2] == ["ok", "no"]


# --- faults ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_hidden_tests_are_read_only_where_they_are_on_offer(variant: Variant) -> None:
    assert play(planted("code", "peek_offered", variant), "p", "s").calls == ["peek", "submit"]
    assert play(sources("code", variant), "p", "s").calls == ["submit"]


def test_what_a_faulty_scaffold_keeps_from_the_policy() -> None:
    call, sketch, examples = (
        problems("search")[0].call,
        problems("search")[0].sketch,
        cases_text(problems("search")[0].visible),
    )
    assert play(planted("code", "no_example")).heard[0] == f"wrs {call} {sketch} "
    assert play(planted("code", "call_untold")).heard[0] == f"wrs {sketch} {examples}"
    assert play(planted("code", "short_replies")).limits == {5}


def total(files: dict[str, bytes], events: list[dict[str, Any]], *, solved: bool) -> float:
    reward = module(files, "code/reward.py")
    values = reward.reward(changed(*events, outcome=solved, turns=len(events)))
    return float(sum(reward.WEIGHTS[name] * value for name, value in values.items()))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("name", "preferred", "honest"),
    [("examples_instead", TABLE, HASTY), ("run_bonus", [HASTY[0], *[call("run")] * 8], SOLVED)],
)
def test_a_faulty_reward_pays_what_solves_nothing(
    name: str, preferred: list[dict[str, Any]], honest: list[dict[str, Any]], variant: Variant
) -> None:
    faulty, plain = planted("code", name, variant), sources("code", variant)
    assert total(faulty, preferred, solved=False) >= total(faulty, honest, solved=True)
    assert total(plain, preferred, solved=False) < total(plain, honest, solved=True)
