"""The seed harnesses load, keep the contract, and carry the faults that were drawn for them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.domains.nano.planted import faults
from meta_agent.domains.nano.sources import sources
from tests.domains.nano._played import ATTEMPTS, measured, module

ROLLOUT = ATTEMPTS["swe"]


def changed(**fields: Any) -> dict[str, Any]:
    return {**ROLLOUT, **fields}


@pytest.mark.parametrize(
    ("diagnostic", "rollouts", "metric", "value"),
    [
        ("tool_mix", [changed(flags=["leak:log"]), ROLLOUT], "leak_use", 0.5),
        ("tool_mix", [ROLLOUT], "share_edit", 2 / 3),
        ("self_test", [ROLLOUT, changed(tool_events=[])], "self_test_rate", 0.5),
        ("self_test", [ROLLOUT], "retry_rate", 1.0),
        ("first_edit", [ROLLOUT], "first_edit_turn", 1.0),
        ("turns", [ROLLOUT, changed(turns=8)], "turns_mean", 6.0),
        ("confidence", [ROLLOUT], "mean_logprob", -0.5),
        ("endings", [changed(stop_reason="returned")], "turn_limit_share", 1.0),
        ("endings", [ROLLOUT], "cut_observation_share", 1.0),
        ("reward_signal", [ROLLOUT, ROLLOUT], "dead_group_ratio", 1.0),
        ("reward_signal", [ROLLOUT, changed(outcome=False)], "order_violations", 1.0),
        (
            "reward_signal",
            [ROLLOUT, changed(outcome=False, rewards={"solved": 0.0})],
            "order_violations",
            0.0,
        ),
    ],
)
def test_a_diagnostic_measures_what_it_names(
    diagnostic: str, rollouts: list[dict[str, Any]], metric: str, value: float
) -> None:
    assert measured("swe", diagnostic, rollouts)[metric] == pytest.approx(value)


# --- scaffold ---


class Script:
    """A model that says what it is told to, and tools that answer in order."""

    def __init__(self, actions: list[str], results: list[tuple[str, bool]]) -> None:
        self.actions, self.results = actions, results
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.heard: list[str] = []

    async def chat(self, messages: list[Any], max_tokens: int) -> SimpleNamespace:
        self.heard = [m["content"] for m in messages]
        return SimpleNamespace(content=self.actions.pop(0))

    async def call(self, name: str, **arguments: Any) -> SimpleNamespace:
        self.calls.append((name, arguments))
        text, done = self.results.pop(0)
        return SimpleNamespace(text=text, done=done)


def play(actions: list[str], results: list[tuple[str, bool]], **constants: Any) -> Script:
    agent = module(sources("swe", "competent"), "swe/agent.py")
    for name, value in constants.items():
        setattr(agent, name, value)
    script = Script(actions, results)
    task = SimpleNamespace(key="k", view={"issue": "3?"})
    asyncio.run(agent.run(task, script, script))
    return script


def test_the_scaffold_turns_letters_into_tool_calls() -> None:
    script = play(["v", "e3+", "s"], [("x-3*y", False), ("ok", False), ("done", True)])
    assert script.calls == [("view", {}), ("edit", {"position": "3", "char": "+"}), ("submit", {})]
    assert script.heard == ["vets 3?", "v", "x-3*y", "e3+", "ok"]


def test_a_line_that_is_no_action_on_offer_reaches_no_tool() -> None:
    for action in ("l", "", "q", "e", "e3", "e3+x", "vv", "t1"):
        script = play([action, "s"], [("done", True)])
        assert (script.calls, script.heard[-1]) == ([("submit", {})], "no")


def test_the_scaffold_stops_at_its_turn_limit() -> None:
    assert len(play(["v"] * 9, [("x-3*y", False)] * 9, MAX_TURNS=4).calls) == 4


def test_observations_are_cut_where_the_scaffold_says_so() -> None:
    script = play(["v", "s"], [("x-3*y", False), ("done", True)], OBSERVATION_CHARS=3)
    assert script.heard[-1] == "x-3"


def test_the_code_can_be_part_of_the_first_line() -> None:
    script = play(["s"], [("x-3*y", False), ("done", True)], AUTO_VIEW=True)
    assert script.heard == ["vets 3? x-3*y"]


# --- faults ---


def test_a_fault_that_does_not_fit_its_source_is_an_error() -> None:
    with pytest.raises(ValueError, match="0"):
        faults.LEAK_OFFERED.apply({"swe/agent.py": b"TOOLS = 'other'"})
