"""The nano-code harnesses load, keep the contract, play, and carry what was planted."""

import asyncio
import types
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.domains.nano.code import NanoCode, told
from meta_agent.domains.nano.code_tasks import problems
from meta_agent.domains.nano.planted.code_faults import FAULTS
from meta_agent.domains.nano.sources import Variant
from meta_agent.domains.nano.sources import sources as shipped

VARIANTS: tuple[Variant, ...] = ("seed", "competent")


def sources(variant: Variant) -> dict[str, bytes]:
    return shipped("code", variant)


def module(files: dict[str, bytes], path: str) -> Any:
    loaded = types.ModuleType(path)
    exec(compile(files[path], path, "exec"), loaded.__dict__)  # noqa: S102
    return loaded


def planted(name: str, variant: Variant = "competent") -> dict[str, bytes]:
    return next(f for f in FAULTS if f.name == name).apply(sources(variant))


def trees() -> list[Any]:
    plain = [pytest.param(sources(v), id=v) for v in VARIANTS]
    return plain + [
        pytest.param(fault.apply(sources(v)), id=f"{v}-{fault.name}")
        for v in VARIANTS
        for fault in FAULTS
    ]


def call(tool: str, result: str = "ok", **arguments: str) -> dict[str, Any]:
    return {"turn": 0, "tool": tool, "arguments": arguments, "result": result, "ok": True}


SOLVED = [call("write", code="=x*2"), call("run"), call("submit", "done")]
HASTY = [call("write", code="=x*2"), call("submit", "done")]
TABLE = [call("write", code="=2>4,3>6"), call("run"), call("submit", "done")]
ROLLOUT: dict[str, Any] = {
    "task_key": "a",
    "group_id": "a",
    "outcome": True,
    "rewards": {"solved": 1.0},
    "weights": {"solved": 1.0},
    "stop_reason": "submitted",
    "flags": [],
    "turns": 3,
    "error": None,
    "messages": [
        {"role": "user", "content": "wrs f 2>4,3>6"},
        {"role": "assistant", "content": "=x*2"},
        {"role": "tool", "content": "ok"},
    ],
    "tool_events": SOLVED,
    "tokens": {"logprobs": [-0.5, 0.0], "mask": [1, 0]},
}


def changed(*events: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**ROLLOUT, "tool_events": list(events) or SOLVED, **fields}


@pytest.mark.parametrize("files", trees())
def test_every_tree_rewards_filters_orders_and_measures(files: dict[str, bytes]) -> None:
    reward = module(files, "code/reward.py")
    values = reward.reward(ROLLOUT)
    assert set(values) == set(reward.WEIGHTS)
    assert all(isinstance(value, float) for value in values.values())
    group = {"task_key": "a", "rewards": [0.0, 1.0], "outcomes": [False, True]}
    assert len(module(files, "code/filter.py").keep([group, group])) == 2
    views = [{"call": "f", "sketch": s, "examples": [["2", "4"]]} for s in ("x*2", "x?2")]
    tasks = [{"key": key, "view": view} for key, view in zip("ab", views, strict=True)]
    order = module(files, "code/curriculum.py").order
    assert sorted(order(tasks, {"a": {"tries": 8, "solved": 3}})) == ["a", "b"]
    for path in files:
        if path.startswith("code/diagnostics/"):
            for rollouts in ([], [ROLLOUT], [ROLLOUT, changed(messages=[], outcome=None)]):
                assert all(v == float(v) for v in module(files, path).measure(rollouts).values())


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
    loaded = module(sources("seed"), f"code/diagnostics/{diagnostic}.py")
    assert loaded.measure(rollouts)[metric] == pytest.approx(value)


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


PROBLEM = problems("search")[0]


def play(files: dict[str, bytes], *replies: str) -> Script:
    script = Script(*replies)
    asyncio.run(module(files, "code/agent.py").run(script.task, script, script))
    return script


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_program_is_written_run_and_handed_in(variant: Variant) -> None:
    played = play(sources(variant), PROBLEM.solution, "r", "s")
    assert played.calls == ["write", "run", "submit"]
    assert played.environment.grade().success


@pytest.mark.parametrize(("variant", "examples", "turns"), [("seed", 2, 6), ("competent", 3, 7)])
def test_the_policy_is_told_what_the_scaffold_says(
    variant: Variant, examples: int, turns: int
) -> None:
    played = play(sources(variant))
    shown = told(PROBLEM.visible[:examples])
    assert played.heard[0] == f"wrs {PROBLEM.call} {PROBLEM.sketch} {shown}"
    assert played.asked == turns


@pytest.mark.parametrize("said", ["", "w", "p", "x*2", "rs", "S", "?", "write"])
def test_what_is_no_action_on_offer_is_refused(said: str) -> None:
    played = play(sources("seed"), said, "s")
    assert played.calls == ["submit"] and played.heard[2] == "no"


def test_a_program_can_be_run_as_it_is_written() -> None:
    files = sources("seed")
    files["code/agent.py"] = files["code/agent.py"].replace(
        b"RUN_ON_WRITE = False", b"RUN_ON_WRITE = True"
    )
    played = play(files, PROBLEM.solution, "=nonsense", "s")
    assert played.calls == ["write", "run", "write", "submit"]
    assert played.heard[2::2] == ["ok", "no"]


# --- faults ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_hidden_tests_are_read_only_where_they_are_on_offer(variant: Variant) -> None:
    assert play(planted("peek_offered", variant), "p", "s").calls == ["peek", "submit"]
    assert play(sources(variant), "p", "s").calls == ["submit"]


def test_what_a_faulty_scaffold_keeps_from_the_policy() -> None:
    assert play(planted("no_example")).heard[0] == f"wrs {PROBLEM.call} {PROBLEM.sketch} "
    assert play(planted("call_untold")).heard[0] == f"wrs {PROBLEM.sketch} {told(PROBLEM.visible)}"
    assert play(planted("short_replies")).limits == {5}


def total(files: dict[str, bytes], events: list[dict[str, Any]], *, solved: bool) -> float:
    reward = module(files, "code/reward.py")
    values = reward.reward(changed(*events, outcome=solved, turns=len(events)))
    return float(sum(reward.WEIGHTS[name] * value for name, value in values.items()))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("name", "preferred", "honest"),
    [
        ("examples_instead", TABLE, HASTY),
        ("run_bonus", [HASTY[0], *[call("run")] * 8], SOLVED),
    ],
)
def test_a_faulty_reward_pays_what_solves_nothing(
    name: str,
    preferred: list[dict[str, Any]],
    honest: list[dict[str, Any]],
    variant: Variant,
) -> None:
    faulty, plain = planted(name, variant), sources(variant)
    assert total(faulty, preferred, solved=False) >= total(faulty, honest, solved=True)
    assert total(plain, preferred, solved=False) < total(plain, honest, solved=True)
