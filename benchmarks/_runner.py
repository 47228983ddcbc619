"""What the runner, the worker, the pipe and the record cost, with a policy that answers at once.

A rollout has five turns: five model calls, four tool calls, one submission; the environment and the
gateway do nothing. Everything else is real: the sandbox, the harness code, the frames, the record.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import (
    Ceilings,
    GenerateReply,
    GenerateRequest,
    HarnessTree,
    Outcome,
    PlannedRollout,
    Sampling,
    Task,
    TokenRecord,
    ToolResult,
)
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.sandboxes import open_sandbox

TURNS = 5
HARNESS_TOML = """
[harness]
name = "bench"
entry = "bench/agent.py:run"
editable = ["bench/**"]
[factors]
scaffold = ["bench/agent.py"]
"""
AGENT = """
async def run(task, model, tools):
    messages = [{"role": "system", "content": "Fix the bug."},
                {"role": "user", "content": task["issue"]}]
    while True:
        reply = await model.chat(messages, max_tokens=24)
        messages.append({"role": "assistant", "content": reply.content})
        name, _, rest = reply.content.partition(" ")
        result = await tools.call(name, text=rest)
        if result.done:
            return
        messages.append({"role": "tool", "content": result.text})
"""


class Instant:
    """Environment and gateway in one: whatever is asked, the answer is ready."""

    name, evaluator_hash, policy, lock_step = "bench", "e0", "instant@0", True
    tools: Sequence[str] = ("view", "submit")
    ceilings = Ceilings(TURNS + 1, 64, 4096, 600.0)
    sampling = Sampling(1.0)

    def open(self, task: Task) -> Instant:
        return self

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        if tool == "submit":
            return ToolResult("done", done=True)
        return ToolResult("def f(a, b): return a - b")

    def grade(self) -> Outcome:
        return Outcome(True)

    def verifier_inputs(self) -> dict[str, Any]:
        return {"source": "def f(a, b): return a + b"}

    def close(self) -> None: ...

    def tasks(self, split: str) -> Sequence[Task]:
        return []

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, Any]) -> Outcome:
        return Outcome(True)

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        said = "submit now" if requests[0].turn == TURNS - 1 else "view file.py"
        return [GenerateReply(said, "stop", 40, 4) for _ in requests]

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        return [None] * len(keys)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rollouts", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--backend", default="process", choices=["process", "docker"])
    parser.add_argument("--profile", action="store_true")


def measure(given: argparse.Namespace) -> dict[str, dict[str, float]]:
    files = {"harness.toml": HARNESS_TOML.encode(), "bench/agent.py": AGENT.encode()}
    with open_sandbox(given.backend, run="bench") as sandbox:
        session = HarnessSession(sandbox, HarnessTree("c", "t", files))
        world = Instant()
        runner = Runner(world, session, world, Stamp("r", "v", "c"))
        task = Task("bench", "k", "search", "h", {"issue": "f adds its arguments wrongly " * 2})
        plan = [PlannedRollout(task, i, 0, f"g{i // 8}") for i in range(given.rollouts)]
        runner.run(plan)
        seconds = [once(runner, plan) for _ in range(given.repeat)]
        if given.profile:
            with cProfile.Profile() as profiler:
                runner.run(plan)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
    middle = statistics.median(seconds) / given.rollouts
    return {
        f"{given.backend}, {TURNS} turns": {
            "rollouts_per_sec": round(1 / middle),
            "us_per_rollout": round(middle * 1e6, 1),
            "us_per_turn": round(middle * 1e6 / TURNS, 1),
            "best_us_per_rollout": round(min(seconds) / given.rollouts * 1e6, 1),
        }
    }


def once(runner: Runner, plan: Sequence[PlannedRollout]) -> float:
    began = time.perf_counter()
    rows = runner.run(plan)
    seconds = time.perf_counter() - began
    assert all(row.clean and row.turns == TURNS for row in rows)
    return seconds
