"""What the runner, the worker, the pipe and the record cost, with a policy that answers at once.

A rollout has five turns: five model calls, four tool calls, one submission; the environment and the
gateway do nothing. Everything else is real: the sandbox, the harness code, the frames, the record.

    python benchmarks/runner.py [--rollouts N] [--repeat R] [--backend process|docker] [--profile]
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


def measure(backend: str, count: int, repeat: int, profile: bool) -> None:
    files = {"harness.toml": HARNESS_TOML.encode(), "bench/agent.py": AGENT.encode()}
    sandbox = open_sandbox(backend, run="bench")
    try:
        session = HarnessSession(sandbox, HarnessTree("c", "t", files))
        world = Instant()
        runner = Runner(world, session, world, Stamp("r", "v", "c"))
        task = Task("bench", "k", "search", "h", {"issue": "f adds its arguments wrongly " * 2})
        plan = [PlannedRollout(task, i, 0, f"g{i // 8}") for i in range(count)]
        runner.run(plan)
        report(backend, count, [once(runner, plan) for _ in range(repeat)])
        if profile:
            with cProfile.Profile() as profiler:
                runner.run(plan)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
    finally:
        sandbox.close()


def once(runner: Runner, plan: Sequence[PlannedRollout]) -> float:
    began = time.perf_counter()
    rows = runner.run(plan)
    seconds = time.perf_counter() - began
    assert all(row.clean and row.turns == TURNS for row in rows)
    return seconds


def report(backend: str, count: int, seconds: list[float]) -> None:
    middle = statistics.median(seconds)
    per_rollout = middle / count * 1e6
    print(f"backend {backend}, {count} rollouts of {TURNS} turns, median of {len(seconds)}")
    print(f"  {count / middle:8.0f} rollouts/s")
    print(f"  {per_rollout:8.1f} us per rollout (best {min(seconds) / count * 1e6:.1f})")
    print(f"  {per_rollout / TURNS:8.1f} us per turn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--backend", default="process")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    measure(args.backend, args.rollouts, args.repeat, args.profile)


if __name__ == "__main__":
    main()
