"""Environments made with the verifiers library itself run as domains, and rewards are its own.

The library lives in an environment of its own: META_AGENT_VERIFIERS_PYTHON names its interpreter.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.graded import GradedDomain

PYTHON = os.environ.get("META_AGENT_VERIFIERS_PYTHON", "")


def needs_library(test: Callable[..., None]) -> Callable[..., None]:
    """Slow, since the environment that has it is set up beside the tests that are not."""
    why = "META_AGENT_VERIFIERS_PYTHON names no interpreter with verifiers"
    return pytest.mark.slow(pytest.mark.skipif(not PYTHON, reason=why)(test))


TASKSET = '''
import verifiers.v1 as vf
from verifiers.v1.utils.decorators import metric, reward, tool

__all__ = ["Sums"]

class Sum(vf.TaskData):
    a: int = 0
    b: int = 0

class Used(vf.State):
    count: int = 0

class Calc(vf.Toolset[vf.ToolsetConfig, Used]):
    @tool
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.state.count += 1
        return a + b

class SumTask(vf.Task[Sum, Used]):
    @classmethod
    def toolsets(cls, config):
        return [Calc(vf.ToolsetConfig())]

    @reward(weight=1.0)
    async def correct(self, task, trace) -> float:
        return float(trace.last_reply == str(task.a + task.b))

    @reward(weight=0.25)
    async def brief(self, trace) -> float:
        return 1 / (1 + len(trace.last_reply))

    @reward(weight=0.5)
    async def used(self, trace) -> float:
        return float(trace.state.count > 0)

    @metric
    async def turns(self, trace) -> float:
        return trace.num_turns

class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        for n in range(20):
            prompt = f"What is {n} + {n + 1}?"
            yield SumTask(Sum(name=f"sum-{n}", prompt=prompt, system_prompt="Add.", a=n, b=n + 1))
'''
# The library's own way: a trace of its own making, scored by its own `Task.score`.
STORED = """
import asyncio, json, random
from verifiers.v1 import AgentConfig, AgentInfo, Trace, TraceTask
from verifiers.v1.graph import MessageNode
from verifiers.v1.types import AssistantMessage, SystemMessage, UserMessage
from sums import Sums
from verifiers.v1 import TasksetConfig

random.seed(1)
tasks = list(Sums(TasksetConfig(id="sums")))
for n in range(200):
    task = tasks[n % len(tasks)]
    said = str(task.data.a + task.data.b + random.choice((0, 0, 1))) + random.choice(("", " "))
    said += random.choice(("", "!", " I think"))
    messages = [SystemMessage(content="Add."), UserMessage(content=task.data.prompt)]
    messages.append(AssistantMessage(content=said))
    trace = Trace.model_construct(
        task=TraceTask.model_construct(type="SumTask", data=task.data),
        agent=AgentInfo.model_construct(config=AgentConfig.model_construct()),
        state=type(task).mro() and __import__("sums").Used(),
    )
    for at, message in enumerate(messages):
        sampled = message.role == "assistant"
        parent = at - 1 if at else None
        trace.nodes.append(MessageNode(parent=parent, message=message, sampled=sampled))
    asyncio.run(task.score(trace))
    plain = [{"role": m.role, "content": m.content} for m in messages]
    print(json.dumps({"key": task.data.name, "messages": plain, "reward": trace.reward}))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sums.py").write_text(TASKSET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(name: str = "sums") -> GradedDomain:
    domain = open_domain(DomainOptions(f"verifiers:{name}", python=PYTHON))
    assert isinstance(domain, GradedDomain)
    return domain


@needs_library
def test_a_taskset_with_tools_is_a_domain(folder: Path) -> None:
    domain = opened()
    task = domain.task("sum-3")
    assert task.view["messages"][0] == {"role": "system", "content": "Add."}
    assert task.view["tools"] == ["calc_add", "submit"]
    environment = domain.open(task)
    assert environment.call("calc_add", {"a": 3, "b": 4}).text == "7"
    environment.call("submit", {"answer": "7"})
    outcome = environment.grade()
    environment.close()
    assert outcome.success and outcome.detail["score"] == 1.0 + 0.5 + 0.25 / 2
    assert outcome.detail["metrics"] == {"turns": 1.0}
    domain.close()


@needs_library
def test_two_hundred_of_its_own_rollouts_regrade_to_the_same_rewards(folder: Path) -> None:
    made = subprocess.run([PYTHON, "-c", STORED], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    stored: list[dict[str, Any]] = [json.loads(line) for line in made.stdout.splitlines()]
    domain = opened()
    rewards = []
    for row in stored:
        inputs = {"answer": row["messages"][-1]["content"], "messages": row["messages"]}
        rewards.append(domain.regrade(row["key"], inputs).detail["score"])
    domain.close()
    assert rewards == [row["reward"] for row in stored]
    assert len(stored) == 200 and len(set(rewards)) > 3


@needs_library
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("async def correct(self, task,", "async def correct(self, runtime, task,"), "runtime"),
        (("class SumTask(vf.Task[Sum, Used]):", "class SumTask(vf.Task[Sum, Used]):\n"
          "    NEEDS_CONTAINER = True\n"), "container"),
    ],
    ids=["runtime", "container"],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_by_name(
    folder: Path, change: tuple[str, str], said: str
) -> None:
    (folder / "sums.py").write_text(TASKSET.replace(*change))
    with pytest.raises(ConfigError, match=said):
        opened()


@needs_library
def test_a_package_that_is_not_there_is_one_sentence(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no_such_taskset") as caught:
        opened("no-such-taskset")
    assert "\n" not in str(caught.value)


def test_without_the_library_it_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match="verifiers"):
        open_domain(DomainOptions("verifiers:sums"))


# --- the older form ------------------------------------------------------------------------------

OLDER = """
import verifiers as vf
from datasets import Dataset

def add(a: int, b: int) -> int:
    'Add two numbers.'
    return a + b

def correct(completion, answer, **kwargs) -> float:
    return float(completion[-1]["content"].strip() == answer)

async def brief(completion, **kwargs) -> float:
    return 1 / (1 + len(completion[-1]["content"]))

def load_environment(tools: bool = {tools}, **kwargs):
    rows = [dict(question=f"What is {{n}} + {{n + 1}}?", answer=str(2 * n + 1)) for n in range(20)]
    rubric = vf.Rubric(funcs=[correct, brief], weights=[1.0, 0.25])
    made = dict(dataset=Dataset.from_list(rows), rubric=rubric, system_prompt="Add.")
    return vf.ToolEnv(tools=[add], **made) if tools else vf.SingleTurnEnv(**made)
"""


@cache
def knows_the_older_form() -> bool:
    code = "import verifiers as vf; vf.load_environment, vf.ToolEnv, vf.Rubric"
    return subprocess.run([PYTHON, "-W", "ignore", "-c", code], capture_output=True).returncode == 0


@needs_library
@pytest.mark.parametrize("tools", [False, True], ids=["SingleTurnEnv", "ToolEnv"])
def test_an_environment_of_the_older_form_is_a_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: bool
) -> None:
    if not knows_the_older_form():
        pytest.skip("this version of verifiers has no load_environment: 0.1 has")
    (tmp_path / "older_sums.py").write_text(OLDER.format(tools=tools))
    monkeypatch.chdir(tmp_path)
    domain = opened("older-sums")
    assert len(domain.rows) == 20
    task = domain.task("3")
    assert [message["role"] for message in task.view["messages"]] == ["system", "user"]
    assert task.view["tools"] == (["add", "submit"] if tools else ["submit"])
    environment = domain.open(task)
    if tools:
        assert environment.call("add", {"a": 3, "b": 4}).text == "7"
    environment.call("submit", {"answer": "7"})
    right = environment.grade()
    wrong = domain.regrade("3", {"answer": "70"})
    environment.close()
    domain.close()
    assert right.success and right.detail["score"] == pytest.approx(1.0 + 0.25 / 2)
    assert not wrong.success and wrong.detail["score"] == pytest.approx(0.25 / 3)


def test_code_in_subfolders_counts_by_its_path(tmp_path: Path, monkeypatch: Any) -> None:
    """Two files of one name are two files: each belongs to what a run measures with."""
    from meta_agent.domains.verifiers import verifiers_guest

    for folder in ("", "easy", "hard"):
        (tmp_path / "sums_apart" / folder).mkdir()
        (tmp_path / "sums_apart" / folder / "__init__.py").write_text(f"PART = {folder!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = verifiers_guest.code_of(importlib.import_module("sums_apart"))
    assert sorted(code) == ["__init__.py", "easy/__init__.py", "hard/__init__.py"]
    assert len(set(code.values())) == 3
