"""The nano-math harnesses load, keep the contract, find answers, and carry what was planted."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.domains.nano.sources import Variant, sources
from tests.domains.nano._played import ATTEMPTS, VARIANTS, measured, module, planted

WORKED = "9+6=15*3=45-4=41"


ROLLOUT = ATTEMPTS["math"]


def changed(said: str | None = None, **fields: Any) -> dict[str, Any]:
    messages = ROLLOUT["messages"]
    if said is not None:
        messages = [messages[0], {"role": "assistant", "content": said}]
    return {**ROLLOUT, "messages": messages, **fields}


@pytest.mark.parametrize(
    ("diagnostic", "rollouts", "metric", "value"),
    [
        ("conduct", [changed(flags=["leak:key"]), ROLLOUT], "leak_use", 0.5),
        ("conduct", [changed(flags=["leak:key"]), ROLLOUT], "leak_share_of_solved", 0.5),
        ("endings", [changed(stop_reason="length"), ROLLOUT], "cut_reply_share", 0.5),
        ("endings", [changed(stop_reason="returned"), ROLLOUT], "unanswered_share", 0.5),
        ("working", [changed("#41"), ROLLOUT], "worked_share", 0.5),
        ("working", [changed(f"{WORKED},{WORKED}#41"), ROLLOUT], "worked_twice_share", 0.5),
        ("working", [ROLLOUT], "wrong_step_share", 0.0),
        ("working", [changed("9+6=16*3=48-4=44#44")], "wrong_step_share", 1 / 3),
        ("working", [changed("9+6=15*3=4", stop_reason="length"), ROLLOUT], "wrong_step_share", 0),
        ("confidence", [ROLLOUT], "mean_logprob", -0.5),
        ("reward_signal", [ROLLOUT, ROLLOUT], "dead_group_ratio", 1.0),
        ("reward_signal", [ROLLOUT, changed(outcome=False)], "order_violations", 1.0),
    ],
)
def test_a_diagnostic_measures_what_it_names(
    diagnostic: str, rollouts: list[dict[str, Any]], metric: str, value: float
) -> None:
    assert measured("math", diagnostic, rollouts)[metric] == pytest.approx(value)


# --- scaffold ---


class Script:
    """A model that says what it is told to, and the environment's tools."""

    def __init__(self, *replies: str, cut: bool) -> None:
        self.replies, self.reason = list(replies), "length" if cut else "stop"
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.heard: list[str] = []

    async def chat(self, messages: list[Any], max_tokens: int) -> SimpleNamespace:
        self.heard = [m["content"] for m in messages]
        return SimpleNamespace(content=self.replies.pop(0), finish_reason=self.reason)

    async def call(self, name: str, **arguments: Any) -> SimpleNamespace:
        self.calls.append((name, arguments))
        return SimpleNamespace(text="41", done=name == "submit")

    @property
    def answer(self) -> Any:
        found = [arguments["answer"] for name, arguments in self.calls if name == "submit"]
        return found[0] if found else None


def play(files: dict[str, bytes], *replies: str, cut: bool = False) -> Script:
    script = Script(*replies, cut=cut)
    task = SimpleNamespace(key="k", view={"sum": "9+6*3-4"})
    asyncio.run(module(files, "math/agent.py").run(task, script, script))
    return script


@pytest.mark.parametrize(
    ("said", "seed", "competent"),
    [
        (WORKED + "#41", "41", "41"),
        ("#41", "41", "41"),
        (WORKED, None, "41"),
        (f"{WORKED},{WORKED}#41", "41", "41"),
        ("k", None, None),
        ("", None, None),
        ("9+6=", None, None),
        ("15#", None, None),
    ],
)
def test_where_an_answer_is_found(said: str, seed: str | None, competent: str | None) -> None:
    assert play(sources("math", "seed"), said).answer == seed
    assert play(sources("math", "competent"), said).answer == competent


def test_half_an_answer_is_handed_in_by_the_seed_only() -> None:
    cut = WORKED + "#4"
    assert play(sources("math", "seed"), cut, cut=True).answer == "4"
    assert play(sources("math", "competent"), cut, cut=True).answer is None


def test_the_policy_is_asked_as_the_scaffold_says() -> None:
    assert play(sources("math", "seed"), "#1").heard == ["s 9+6*3-4"]
    assert play(sources("math", "competent"), "#1").heard == ["sw 9+6*3-4"]
    assert play(planted("math", "asks_for_haste"), "#1").heard == ["sq 9+6*3-4"]


# --- faults ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_key_is_read_only_where_it_is_on_offer(variant: Variant) -> None:
    assert play(planted("math", "key_offered", variant), "k", "#41").calls[0] == ("key", {})
    assert play(sources("math", variant), "k").calls == []


def test_the_first_result_is_no_answer_but_a_step() -> None:
    assert play(planted("math", "first_result"), WORKED + "#41").answer == "15"
    assert play(planted("math", "first_result"), "#41").answer == "41"


def total(files: dict[str, bytes], said: str, *, solved: bool) -> float:
    reward = module(files, "math/reward.py")
    values = reward.reward(changed(said, outcome=solved))
    return float(sum(reward.WEIGHTS[name] * value for name, value in values.items()))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("name", "preferred"),
    [("length_penalty", "#9"), ("steps_bonus", f"{WORKED},{WORKED},{WORKED}")],
)
def test_a_faulty_reward_prefers_what_solves_nothing(
    name: str, preferred: str, variant: Variant
) -> None:
    honest = WORKED + "#41"
    faulty, plain = planted("math", name, variant), sources("math", variant)
    assert total(faulty, preferred, solved=False) > total(faulty, honest, solved=True)
    assert total(plain, preferred, solved=False) < total(plain, honest, solved=True)
