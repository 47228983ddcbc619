"""`HarnessSession` against the real worker: what comes back is right, or a typed error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import CandidateError, ConfigError, SandboxError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import HarnessTree, RolloutFailure, Sandbox, TokenRecord
from meta_agent.core.resources import resource_dir, shipped_harness
from meta_agent.core.rollouts import to_line
from meta_agent.core.rollouts.record import from_json
from meta_agent.sandboxes import open_sandbox

from ..rollouts._laboratory import FILES, session, tree
from ._samples import GROUPS, TASKS, checked, sample


@pytest.fixture(scope="module")
def lab() -> Iterator[HarnessSession]:
    with session() as held:
        yield held


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    held = open_sandbox("process", run="test")
    yield held
    held.close()


def test_rewards_come_back_in_order(lab: HarnessSession) -> None:
    rollouts = [sample(outcome=True, turns=1), sample(outcome=None, turns=3)]
    expected = [{"solved": 1.0, "short": 0.5}, {"solved": 0.0, "short": 0.25}]
    assert lab.weights == {"solved": 1.0, "short": 0.1}
    assert lab.reward(rollouts) == expected
    assert lab.begin_reward([to_line(rollout) for rollout in rollouts])() == expected
    assert lab.reward([]) == []


def test_more_records_than_fit_one_chunk_are_scored_in_order(lab: HarnessSession) -> None:
    text = {"role": "tool", "content": "x" * (1 << 20)}
    rollouts = [sample(turns=turns, messages=[text]) for turns in range(9)]
    assert [row["short"] for row in lab.reward(rollouts)] == [1 / (1 + t) for t in range(9)]
    (measured,) = lab.measure(rollouts)
    assert measured.values == {"turns_mean": 4.0}


def test_the_filter_weighs_groups_and_the_curriculum_orders_tasks(lab: HarnessSession) -> None:
    assert lab.keep(GROUPS) == [1.0, 0.0]
    assert lab.order(TASKS, {"t0": {"tries": 8, "solved": 1}}) == ["t1", "t0"]
    assert lab.recipe.learning_rate == 1e-4


def test_diagnostics_say_what_they_are_and_what_they_saw(lab: HarnessSession) -> None:
    (measured,) = lab.measure([sample(turns=2), sample(turns=4)])
    assert (measured.name, measured.layer) == ("turns", "behaviour")
    assert measured.thresholds == {"turns_mean": {"max": 6.0}}
    assert measured.values == {"turns_mean": 3.0}
    assert lab.measure([])[0].values == {"turns_mean": 0.0}


def test_a_harness_without_training_side_needs_none(sandbox: Sandbox) -> None:
    bare = tree(filter=None, curriculum=None, diagnostics__turns=None, recipe_toml=None)
    held = HarnessSession(sandbox, bare)
    assert held.keep(GROUPS) == [1.0, 1.0]
    assert held.order(TASKS, {}) == ["t0", "t1"]
    assert held.measure([sample()]) == []
    with pytest.raises(ConfigError, match=r"recipe\.toml"):
        _ = held.recipe
    assert all(result.ok for result in held.check([sample()], TASKS))


def test_a_command_harness_is_refused_before_anything_starts(sandbox: Sandbox) -> None:
    files = dict(FILES)
    files["harness.toml"] = files["harness.toml"].replace(
        'entry = "lab/agent.py:run"', 'command = ["x"]'
    )
    with pytest.raises(ConfigError, match="command"):
        HarnessSession(sandbox, as_tree(files))


def test_a_hook_reads_a_file_beside_it_and_a_worker_can_take_another_harness(
    sandbox: Sandbox,
) -> None:
    code = "import pathlib\nTEXT = (pathlib.Path(__file__).parent / 'prompt.md').read_text()\n"
    reward = code + "WEIGHTS = {}\ndef reward(rollout): return {'x': float(len(TEXT))}\n"
    HarnessSession(sandbox, tree())
    held = HarnessSession(sandbox, tree(reward=reward, prompt_md="four"))
    assert held.reward([sample()]) == [{"x": 4.0}]


def test_a_suite_may_have_the_name_of_a_standard_module(sandbox: Sandbox) -> None:
    files = {path.replace("lab/", "math/"): text for path, text in FILES.items()}
    files["harness.toml"] = files["harness.toml"].replace("lab/", "math/")
    files["math/agent.py"] = "from math import sqrt\nfrom . import more\n" + FILES["lab/agent.py"]
    files["math/more.py"] = "from shared.words import WORD\n"
    files["shared/words.py"] = "WORD = 1\n"
    files["math/reward.py"] = "from math import sqrt\n" + FILES["lab/reward.py"]
    held = HarnessSession(sandbox, as_tree(files))
    assert held.reward([sample(turns=3)]) == [{"solved": 1.0, "short": 0.25}]


GROUP = """
WEIGHTS = {}
def reward(rollout): return {'solved': float(bool(rollout['outcome']))}
def reward_group(rollouts):
    turns = sorted(r['turns'] for r in rollouts)
    return [{'rank': float(turns.index(r['turns']))} for r in rollouts]
"""
JUDGED = """
WEIGHTS = {}
def reward(rollout): return {}
def judge(rollouts): return [f"turns {r['turns']}" if r['turns'] else None for r in rollouts]
def reward_group(rollouts): return [{'liked': float(r['judged'] or 0)} for r in rollouts]
"""


def test_a_group_reward_gets_each_group_whole_and_keeps_the_order(sandbox: Sandbox) -> None:
    held = HarnessSession(sandbox, tree(reward=GROUP))
    rollouts = [
        sample(group_id=group, turns=turns)
        for group, turns in (("a", 5), ("b", 9), ("a", 2), ("b", 1))
    ]
    assert [row["rank"] for row in held.reward(rollouts)] == [1.0, 1.0, 0.0, 0.0]
    lines = [to_line(rollout) for rollout in rollouts]
    assert held.begin_reward(lines)() == held.reward(rollouts)
    assert held.reward([]) == []


GROUP_RETURNS = {
    "[{'x': 1.0}]": "harness_reward_failed",
    "[{'x': float('nan')}] * 2": "harness_reward_failed",
    "[{'x': 1.0}, {}]": "bad_keys",
    "[{'solved': 1.0}] * 2": "bad_keys",
    "[3, 4]": "bad_value",
}


@pytest.mark.parametrize("value", GROUP_RETURNS)
def test_a_group_reward_outside_the_contract_is_named(sandbox: Sandbox, value: str) -> None:
    text = GROUP.partition("    turns")[0] + f"    return {value}\n"
    held = HarnessSession(sandbox, tree(reward=text))
    with pytest.raises(CandidateError) as caught:
        held.reward([sample(group_id="a"), sample(group_id="a")])
    assert caught.value.reason == GROUP_RETURNS[value]


def test_a_judge_answers_as_data_and_who_got_no_answer_is_no_zero(sandbox: Sandbox) -> None:
    held = HarnessSession(sandbox, tree(reward=JUDGED))
    rollouts = [sample(turns=turns) for turns in (3, 0, 4)]
    assert [row["liked"] for row in held.reward(rollouts)] == [0.0, 0.0, 0.0]  # nobody is asked
    asked: list[str] = []

    def ask(questions: Sequence[str]) -> list[str | RolloutFailure]:
        asked.extend(questions)
        return ["0.5", RolloutFailure("verifier", "the judge answered nothing")]

    held.ask_judge = ask
    assert held.reward(rollouts) == [{"liked": 0.5}, {"liked": 0.0}, {}]
    assert asked == ["turns 3", "turns 4"]
    assert [rollout.judged for rollout in rollouts] == ["0.5", None, None]
    assert rollouts[2].error is not None and rollouts[2].error.kind == "verifier"
    assert from_json(json.loads(to_line(rollouts[0]))) == replace(rollouts[0], tokens=None)


@pytest.mark.parametrize("value", ["[3]", "['']", "['x' * 99999]", "[]", "[{}]"])
def test_a_question_outside_the_contract_is_a_candidate_error(sandbox: Sandbox, value: str) -> None:
    text = JUDGED.replace(
        "[f\"turns {r['turns']}\" if r['turns'] else None for r in rollouts]", value
    )
    assert text != JUDGED
    held = HarnessSession(sandbox, tree(reward=text))
    held.ask_judge = lambda questions: list(questions)
    with pytest.raises(CandidateError, match="judge"):
        held.reward([sample()])


LOADING = {
    "syntax": ({"agent": "def run(:"}, "SyntaxError"),
    "import": ({"reward": "import numpy_of_the_moon"}, "ModuleNotFoundError"),
    "no run": ({"agent": "x = 1"}, r"no function run\(\)"),
    "raises": ({"filter": "1 / 0"}, "ZeroDivisionError"),
    "exits": ({"curriculum": "import sys; sys.exit(0)"}, "SystemExit"),
    "weights": ({"reward": "WEIGHTS = {'x': 'y'}\ndef reward(r): ..."}, "WEIGHTS"),
    "nameless": ({"diagnostics__turns": "LAYER = 'score'"}, "NAME"),
}


@pytest.mark.parametrize("fault", LOADING)
def test_a_harness_that_does_not_load_is_a_candidate_error(sandbox: Sandbox, fault: str) -> None:
    changes, told = LOADING[fault]
    with pytest.raises(CandidateError, match=told):
        HarnessSession(sandbox, tree(**changes))


def test_bytes_that_are_no_text_are_refused(sandbox: Sandbox) -> None:
    files = {**tree().files, "lab/agent.py": b"\xff\xfe"}
    with pytest.raises(CandidateError, match=r"lab/agent\.py"):
        HarnessSession(sandbox, HarnessTree("c", "t", files))


RETURNS = {
    "reward": [
        *("None", "3", "{'x': float('nan')}", "{'x': float('inf')}", "{'x': True}"),
        *("{'x': '1'}", "{'x': None}", "{'': 1.0}", "{'a\\nb': 1.0}", "{'x': 1e300}"),
        *("{str(i): 1.0 for i in range(99)}", "{'x': object()}"),
    ],
    "filter": ["None", "[1.0]", "[1.0, -1.0]", "[1.0, float('nan')]", "[1.0, 1e9]", "['a', 'b']"],
    "curriculum": ["None", "[]", "['t0', 't0']", "['nobody']", "[3]", "['t0', ['t1']]"],
}
FORMS = {
    "reward": "WEIGHTS = {{}}\ndef reward(rollout): return {}\n",
    "filter": "def keep(groups): return {}\n",
    "curriculum": "def order(tasks, history): return {}\n",
}


@pytest.mark.parametrize(
    ("role", "value"), [(role, value) for role, values in RETURNS.items() for value in values]
)
def test_a_value_outside_the_contract_is_a_candidate_error(
    sandbox: Sandbox, role: str, value: str
) -> None:
    held = HarnessSession(sandbox, tree(**{role: FORMS[role].format(value)}))
    with pytest.raises(CandidateError):
        {
            "reward": lambda: held.reward([sample()]),
            "filter": lambda: held.keep(GROUPS),
            "curriculum": lambda: held.order(TASKS, {}),
        }[role]()


def test_the_traceback_of_harness_code_reaches_its_reader(sandbox: Sandbox) -> None:
    bad = "WEIGHTS = {}\ndef reward(rollout):\n    return {'x': 1 / 0}\n"
    with pytest.raises(CandidateError, match=r"reward\.py.*line 3") as caught:
        HarnessSession(sandbox, tree(reward=bad)).reward([sample()])
    assert caught.value.reason == "harness_reward_failed"
    assert not any(ours in str(caught.value) for ours in ("<worker>", "<guest", "<frames>"))


@pytest.mark.parametrize(
    "bad",
    [
        "WEIGHTS = {}\ndef reward(rollout):\n    return {'x': 1 / 0}\n",
        "from . import nothing\nWEIGHTS = {}\n",
        "import sys\nsys.modules[__name__].gone()\n",
        "WEIGHTS = {}\ndef reward(rollout):\n    raise ValueError(__name__ + ' ' + __file__)\n",
    ],
)
def test_an_error_reads_the_same_each_time(bad: str) -> None:
    """What a model reads is part of its next request, which a replay has to find again."""
    told = set()
    for _ in range(2):
        with open_sandbox("process", run="same") as own, pytest.raises(CandidateError) as caught:
            HarnessSession(own, tree(reward=bad)).reward([sample()])
        told.add(re.sub(r"/\S*/meta-agent-sandbox-\w+", "", str(caught.value)))  # its own folder
    assert len(told) == 1, told


def test_diagnostics_see_token_rows_where_there_are_any(sandbox: Sandbox) -> None:
    text = """
NAME, LAYER, THRESHOLDS = "sure", "signal", {}
def measure(rollouts):
    return {"n": float(sum(len((r.get("tokens") or {}).get("logprobs", [])) for r in rollouts))}
"""
    held = HarnessSession(sandbox, tree(diagnostics__sure=text))
    tokens = TokenRecord([1], [2, 3], [1, 1], [-0.5, -0.25])
    measured = held.measure([sample(tokens=tokens), sample()])
    assert [m.values for m in measured if m.name == "sure"] == [{"n": 2.0}]


@pytest.mark.parametrize("error", ["EOFError", "SystemExit", "KeyboardInterrupt", "MemoryError"])
def test_whatever_a_reward_raises_the_worker_lives(sandbox: Sandbox, error: str) -> None:
    bad = f"WEIGHTS = {{}}\ndef reward(rollout):\n    raise {error}('now')\n"
    held = HarnessSession(sandbox, tree(reward=bad))
    with pytest.raises(CandidateError, match=error):
        held.reward([sample()])
    assert held.keep(GROUPS) == [1.0, 0.0]


def test_one_broken_diagnostic_does_not_blind_the_others(sandbox: Sandbox) -> None:
    broken = "NAME = 'broken'\nLAYER = 'score'\nTHRESHOLDS = {}\ndef measure(rollouts): 1 / 0\n"
    held = HarnessSession(sandbox, tree(diagnostics__broken=broken))
    first, second = held.measure([sample(turns=2)])
    assert first.failure is not None
    assert "ZeroDivisionError" in first.failure
    assert (first.values, second.values) == ({}, {"turns_mean": 2.0})


# --- contract tests ----------------------------------------------------------------------------


DIAGNOSTIC = "NAME = 'd'\nLAYER = '{}'\nTHRESHOLDS = {{}}\ndef measure(rollouts): return {}\n"
CONTRACT = {
    "run is no coroutine": ({"agent": "def run(t, m, k): ..."}, "lab/agent.py", "run"),
    "run takes two": ({"agent": "async def run(t, m): ..."}, "lab/agent.py", "run"),
    "reward is random": (
        {
            "reward": "import random\nWEIGHTS = {}\n"
            "def reward(rollout): return {'x': random.random()}\n"
        },
        "lab/reward.py",
        "",
    ),
    "reward keeps count": (
        {
            "reward": "WEIGHTS = {}\nseen = []\n"
            "def reward(rollout): seen.append(1); return {'x': float(len(seen))}\n"
        },
        "lab/reward.py",
        "",
    ),
    "reward is nan": (
        {"reward": FORMS["reward"].format("{'x': float('nan')}")},
        "lab/reward.py",
        "Out of range float",
    ),
    "reward without weights": ({"reward": "def reward(r): return {}"}, "lab/reward.py", "WEIGHTS"),
    "the group's names differ": (
        {
            "reward": JUDGED.partition("def judge")[0]
            + "def reward_group(rs): return [{'t' + str(r['turns']): 1.0} for r in rs]\n"
        },
        "lab/reward.py",
        "",
    ),
    "judge asks numbers": (
        {"reward": JUDGED.partition("def judge")[0] + "def judge(rs): return [1 for _ in rs]\n"},
        "lab/reward.py",
        "judge",
    ),
    "no reward": ({"reward": "WEIGHTS = {'solved': 1.0}"}, "lab/reward.py", "no function reward()"),
    "no keep": ({"filter": "x = 1"}, "lab/filter.py", "no function keep()"),
    "keep is short": ({"filter": FORMS["filter"].format("[1]")}, "lab/filter.py", "1 "),
    "keep is negative": ({"filter": FORMS["filter"].format("[-1, 1, 1]")}, "lab/filter.py", ""),
    "order invents": (
        {"curriculum": FORMS["curriculum"].format("['z']")},
        "lab/curriculum.py",
        "'z'",
    ),
    "measure is text": (
        {"diagnostics__d": DIAGNOSTIC.format("score", "{'x': 'y'}")},
        "lab/diagnostics/d.py",
        "x",
    ),
    "measure needs rollouts": (
        {"diagnostics__d": DIAGNOSTIC.format("score", "{'x': 1 / len(rollouts)}")},
        "lab/diagnostics/d.py",
        "division by zero",
    ),
    "unknown layer": (
        {"diagnostics__d": DIAGNOSTIC.format("vibes", "{}")},
        "diagnostic d",
        "vibes",
    ),
    "recipe": ({"recipe_toml": "learning_rate = 7"}, "lab/recipe.toml", "learning_rate"),
}


@pytest.mark.parametrize("fault", CONTRACT)
def test_a_broken_contract_is_found(sandbox: Sandbox, fault: str) -> None:
    changes, name, told = CONTRACT[fault]
    result = checked(sandbox, **changes)[name]
    assert not result.ok
    assert told in result.detail


SHIPPED = [path.parents[1] for path in resource_dir("harness_repo").rglob("agent.py")]


@pytest.mark.parametrize("home", sorted(SHIPPED), ids=lambda path: path.as_posix()[-20:])
def test_every_shipped_harness_passes_its_contract_tests(sandbox: Sandbox, home: Path) -> None:
    name = home.relative_to(resource_dir("harness_repo")).as_posix()
    held = HarnessSession(sandbox, HarnessTree("c", "t", shipped_harness(name)))
    samples = [sample(outcome=True), sample(outcome=False, turns=5)]
    assert [result for result in held.check(samples, TASKS) if not result.ok] == []


# --- a worker that lies ------------------------------------------------------------------------


class Liar:
    """A sandbox whose worker answers what a test says: the host must take nothing on trust."""

    backend = "process"

    def __init__(self, **answers: Any) -> None:
        turns = {"name": "turns", "layer": "behaviour", "thresholds": {}}
        self.answers = {"load": {"weights": {}, "diagnostics": [turns]}, **answers}

    def install(self, name: str, source: str) -> None: ...

    def begin(self, op: str, args: Mapping[str, Any], **_: Any) -> Callable[[], Any]:
        def wait() -> Any:
            answer = self.answers[op.removeprefix("harness.")]
            if isinstance(answer, Exception):
                raise answer
            return json.loads(json.dumps(answer))

        return wait


LIES = [None, 3, "x", [], [None], [[1.0]], {"a": 1}, [{"x": "1"}], [{"x": [1.0]}]]


@pytest.mark.parametrize("lie", LIES)
def test_lies_of_the_worker_are_typed_errors(lie: Any) -> None:
    held = HarnessSession(Liar(reward=lie, keep=lie, order=lie), tree())  # type: ignore[arg-type]
    for call in (
        lambda: held.reward([sample(), sample()]),
        lambda: held.keep(GROUPS),
        lambda: held.order(TASKS, {}),
    ):
        with pytest.raises(CandidateError):
            call()


OF_DIAGNOSTICS = [{"weights": {}, "diagnostics": rows} for rows in ([], [{"name": 1}])]


@pytest.mark.parametrize("lie", [*LIES, *OF_DIAGNOSTICS])
def test_lies_at_loading_are_typed_errors(lie: Any) -> None:
    with pytest.raises(CandidateError):
        HarnessSession(Liar(load=lie), tree())  # type: ignore[arg-type]


def test_a_dead_sandbox_is_not_the_harness_fault() -> None:
    dead = Liar(reward=SandboxError("gone", kind="died"))
    with pytest.raises(SandboxError):
        HarnessSession(dead, tree()).reward([sample()])  # type: ignore[arg-type]


def as_tree(files: Mapping[str, str]) -> HarnessTree:
    return HarnessTree("c", "t", {path: text.encode() for path, text in files.items()})
