"""How fast is a replay backtest of a reward edit, through the sandbox, on full records?

The yardstick is `json.loads` of the same lines in this process, in the same run. Prints one JSON
object; exits 1 below the target. Memory is this process's own peak (the worker has a limit).

    python benchmarks/replay.py [--records 4000] [--repeats 3] [--backend process]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import HarnessTree, Rollout, TokenRecord, ToolEvent
from meta_agent.core.replay.replay import replay
from meta_agent.core.rollouts import RolloutStore
from meta_agent.sandboxes import open_sandbox

TARGET = 0.5
GROUP = 8
TOML = """
[harness]
name = "bench"
entry = "bench/agent.py:run"
editable = ["bench/**"]
protected = []
[factors]
scaffold = ["bench/agent.py"]
reward = ["bench/reward.py"]
filter = ["bench/filter.py"]
"""
REWARD = """
WEIGHTS = {"solved": 1.0, "tested": 0.2, "leak": -1.0}

def reward(rollout):
    tools = [event["tool"] for event in rollout["tool_events"]]
    return {
        "solved": 1.0 if rollout["outcome"] else 0.0,
        "tested": 1.0 if "test" in tools else 0.0,
        "leak": 1.0 if rollout["flags"] else 0.0,
    }
"""
FILTER = """
def keep(groups):
    return [float(max(g["rewards"]) - min(g["rewards"]) > 1e-6) for g in groups]
"""


def tree(commit: str, reward: str) -> HarnessTree:
    texts = {
        "harness.toml": TOML,
        "bench/agent.py": "async def run(task, model, tools):\n    pass\n",
        "bench/reward.py": reward,
        "bench/filter.py": FILTER,
    }
    return HarnessTree(commit, commit, {path: text.encode() for path, text in texts.items()})


def rollout(index: int, turns: int, chars: int) -> Rollout:
    """A multi-turn attempt as an agent on a small repository leaves it."""
    tools = ("view", "edit", "test", "submit")
    text = "def f(x):\n    return x + 1  # and so on\n" * (chars // 40 + 1)
    group, sample = divmod(index, GROUP)
    return Rollout(
        run="bench", version="v0", domain="swe", split="train", task_key=f"task-{group}",
        task_hash="h", group_id=f"g{group}", sample_idx=sample, seed=0, harness_commit="base",
        policy="p", evaluator_hash="ev", outcome=index % 3 == 0, turns=turns,
        messages=[
            {"role": ("assistant", "tool")[turn % 2], "content": text[:chars]}
            for turn in range(2 * turns)
        ],
        tool_events=[
            ToolEvent(turn, tools[turn % 4], {"path": "src/a.py"}, text[: chars // 2], True)
            for turn in range(turns)
        ],
        tokens=TokenRecord([1] * 40, [2] * 90, [1] * 90, [-0.51234] * 90),
        rewards={"solved": float(index % 3 == 0)}, weights={"solved": 1.0},
        verifier_inputs={"patch": text[:chars]}, stop_reason="submitted",
        timings={"wall": 1.5}, cost={"tokens": 130.0},
    )  # fmt: skip


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several runs."""
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def cpu_sec(work: Callable[[], object]) -> float:
    """This process's own processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def decode(lines: Iterator[bytes]) -> int:
    return sum(len(json.loads(line)) for line in lines)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(store: RolloutStore, name: str, args: argparse.Namespace) -> dict[str, float]:
    lines = list(store.iter_lines(name))
    size = sum(map(len, lines)) / 1e6
    decode_sec = best(lambda: decode(iter(lines)), args.repeats)
    decode_cpu = cpu_sec(lambda: decode(iter(lines)))
    sandboxes = [open_sandbox(args.backend, run="bench-replay") for _ in range(2)]
    try:
        base = HarnessSession(sandboxes[0], tree("base", REWARD))
        edited = HarnessSession(sandboxes[1], tree("edit", REWARD.replace("0.2", "0.3")))
        stored = best(lambda: replay(base, edited, lines, stored_commit="base"), args.repeats)
        both = best(lambda: replay(base, edited, lines), args.repeats)
        host_cpu = cpu_sec(lambda: replay(base, edited, lines, stored_commit="base"))
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    return {
        "record_kb": 1000 * size / len(lines),
        "records_per_sec": len(lines) / stored,
        "decode_mb_per_sec": size / decode_sec,
        "replay_mb_per_sec": size / stored,
        "ratio": decode_sec / stored,
        "ratio_when_the_base_is_scored_too": decode_sec / both,
        # On a busy machine wall clocks of two processes mislead; this side's work does not.
        "host_cpu_over_decode_cpu": host_cpu / decode_cpu,
    }


def growth(store: RolloutStore, args: argparse.Namespace) -> dict[str, float]:
    """This process's peak after N and after 4 N records, streamed from the store."""
    peaks = {}
    sandboxes = [open_sandbox(args.backend, run="bench-replay") for _ in range(2)]
    try:
        base = HarnessSession(sandboxes[0], tree("base", REWARD))
        edited = HarnessSession(sandboxes[1], tree("edit", REWARD))
        for times in (1, 4):
            lines = (line for _ in range(times) for line in store.iter_lines("small"))
            replay(base, edited, lines, stored_commit="base")
            peaks[f"peak_mb_{times}x"] = peak_mb()
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    return peaks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backend", default="process")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = RolloutStore(Path(folder))
        store.write("small", (rollout(i, 5, 16) for i in range(args.records)))
        store.write("large", (rollout(i, 20, 600) for i in range(args.records // 8)))
        memory = growth(store, args)  # first: a peak never goes down again
        result = {name: measure(store, name, args) for name in ("small", "large")}
    print(json.dumps({**result, "memory": memory, "target_ratio": TARGET}, indent=1))
    return 0 if min(side["ratio"] for side in result.values()) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
