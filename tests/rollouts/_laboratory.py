"""A tiny domain, gateway and harness whose every move a test decides. Real sandbox, no model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import (
    Ceilings,
    GenerateReply,
    GenerateRequest,
    HarnessTree,
    Outcome,
    PlannedRollout,
    Rollout,
    Sampling,
    Task,
    TokenRecord,
    ToolResult,
)
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.sandboxes import open_sandbox

BOTH = pytest.mark.parametrize("lock_step", [True, False], ids=["lock-step", "free"])

HARNESS_TOML = """
[harness]
name = "lab"
entry = "lab/agent.py:run"
editable = ["lab/**"]
protected = ["tests/**"]
[factors]
scaffold = ["lab/agent.py", "lab/prompt.md"]
reward = ["lab/reward.py"]
filter = ["lab/filter.py"]
data = ["lab/curriculum.py"]
recipe = ["lab/recipe.toml"]
diagnostics = ["lab/diagnostics/**"]
"""
AGENT = """
async def run(task, model, tools):
    messages = [{"role": "user", "content": task["question"]}]
    while True:
        reply = await model.chat(messages)
        messages.append({"role": "assistant", "content": reply.content})
        word, _, rest = reply.content.partition(" ")
        result = await tools.call(word, text=rest)
        if result.done:
            return
        messages.append({"role": "tool", "content": result.text})
"""
REWARD = """
WEIGHTS = {"solved": 1.0, "short": 0.1}

def reward(rollout):
    return {"solved": float(bool(rollout["outcome"])), "short": 1.0 / (1 + rollout["turns"])}
"""
FILTER = """
def keep(groups):
    return [float(len(set(group["rewards"])) > 1) for group in groups]
"""
CURRICULUM = """
def order(tasks, history):
    return sorted((task["key"] for task in tasks), reverse=True)
"""
TURNS = """
NAME = "turns"
LAYER = "behaviour"
THRESHOLDS = {"turns_mean": {"max": 6.0}}

def measure(rollouts):
    return {"turns_mean": sum(r["turns"] for r in rollouts) / max(1, len(rollouts))}
"""
FILES = {
    "harness.toml": HARNESS_TOML,
    "lab/agent.py": AGENT,
    "lab/reward.py": REWARD,
    "lab/filter.py": FILTER,
    "lab/curriculum.py": CURRICULUM,
    "lab/recipe.toml": "learning_rate = 1e-4\n",
    "lab/diagnostics/turns.py": TURNS,
}


def tree(**changes: str | None) -> HarnessTree:
    """The laboratory harness; keys are paths with `/` as `__` and without the `lab/` prefix."""
    files = dict(FILES)
    for name, text in changes.items():
        path = "lab/" + name.replace("__", "/").replace("_toml", ".toml").replace("_md", ".md")
        path += "" if path.endswith((".toml", ".md")) else ".py"
        files.pop(path, None)
        if text is not None:
            files[path] = text
    return HarnessTree("c0ffee", "7ree", {path: text.encode() for path, text in files.items()})


class Echo:
    """An environment: `say` echoes, `log` leaks, `submit` ends and solves if the text is `yes`."""

    tools = ("say", "log", "submit", "boom", "devour")

    def __init__(self, domain: LabDomain) -> None:
        self.domain = domain
        self.submitted = ""
        domain.opened += 1

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        if tool == "boom":
            raise OSError("the container is gone")
        if tool == "devour":
            raise SandboxError("the sandbox was killed", kind=str(arguments.get("text", "")))
        if tool == "log":
            return ToolResult("the fix", flags=("leak:log",))
        if tool == "submit":
            self.submitted = str(arguments.get("text", ""))
            return ToolResult("thanks", done=True)
        return ToolResult(f"heard {arguments.get('text', '')}")

    def grade(self) -> Outcome:
        if self.submitted == "ungradable":
            raise ValueError("no verdict")
        return Outcome(self.submitted == "yes", {"submitted": self.submitted})

    def verifier_inputs(self) -> dict[str, Any]:
        return {"submitted": self.submitted}

    def close(self) -> None:
        self.domain.closed += 1


class LabDomain:
    name = "lab"
    evaluator_hash = "eva1"
    sampling = Sampling(temperature=0.7, top_p=0.9)

    def __init__(self, ceilings: Ceilings | None = None) -> None:
        self.ceilings = ceilings or Ceilings(6, 64, 1000, 60.0)
        self.opened = self.closed = 0

    def tasks(self, split: str) -> Sequence[Task]:
        return [task(f"t{i}") for i in range(4)]

    def open(self, task: Task) -> Echo:
        if task.view.get("broken"):
            raise OSError("no such image")
        return Echo(self)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, Any]) -> Outcome:
        return Outcome(verifier_inputs["submitted"] == "yes")


def task(key: str, **view: Any) -> Task:
    return Task("lab", key, "train", f"h-{key}", {"question": f"q {key}", **view})


def plan(count: int, **view: Any) -> list[PlannedRollout]:
    return [PlannedRollout(task(f"t{i}", **view), i % 2, 7, f"g{i // 2}") for i in range(count)]


Policy = Callable[[GenerateRequest], GenerateReply | str]


class ScriptGateway:
    """A policy that is a function of the request; remembers the batches it was asked."""

    policy = "script@1"

    def __init__(self, policy: Policy, *, lock_step: bool = True) -> None:
        self._policy = policy
        self.lock_step = lock_step
        self.batches: list[list[GenerateRequest]] = []
        self.finished: list[str] = []
        self._lock = threading.Lock()

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        with self._lock:
            self.batches.append(list(requests))
        return [self._reply(request) for request in requests]

    def _reply(self, request: GenerateRequest) -> GenerateReply:
        said = self._policy(request)
        return said if isinstance(said, GenerateReply) else GenerateReply(said, "stop", 10, 2)

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        self.finished += keys
        return [TokenRecord([1], [2, 3], [1, 1], [-0.5, -0.1]) for _ in keys]


def script(*says: str) -> Policy:
    """The n-th reply of every rollout is the n-th word given; the last one repeats."""
    return lambda request: says[min(request.turn, len(says) - 1)]


@contextmanager
def session(
    harness: HarnessTree | None = None, backend: str = "process"
) -> Iterator[HarnessSession]:
    sandbox = open_sandbox(backend, run="test")
    try:
        yield HarnessSession(sandbox, harness or tree())
    finally:
        sandbox.close()


def runner(
    held: HarnessSession, gateway: ScriptGateway, domain: LabDomain | None = None, **options: Any
) -> Runner:
    return Runner(domain or LabDomain(), held, gateway, Stamp("r1", "v1", "c0ffee"), **options)


def run_agent(
    agent: str, *says: str, count: int = 1, lock_step: bool = True, **options: Any
) -> list[Rollout]:
    """Rollouts of a harness with this agent, whose policy says these words."""
    with session(tree(agent=agent)) as held:
        gateway = ScriptGateway(script(*says), lock_step=lock_step)
        return runner(held, gateway, **options).run(plan(count))
