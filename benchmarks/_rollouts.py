"""Multi-turn nano-swe rollouts per second, beside vLLM on the CPU in the same run.

Three numbers, all warm, same weights, same precision (float32), same scaffold, same tasks:

* `end_to_end`: what a run really does: harness in the process sandbox, environments and runner in
  this process, engine in the policy child, token rows written.
* `engine`: our engine with scaffold and environment in its own process, in lock-step.
* `vllm`: vLLM with scaffold and environment in its own process, continuous batching.

`ratio` is end_to_end / vllm, the stricter one; `engine_ratio` compares like with like.
The contenders run one after the other: use an idle machine, and look at the spread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _nano import STAMP, competent

from maintain.drive import Scaffold, lock_step, search_plans
from meta_agent.core.rollouts import Runner
from meta_agent.policies.training import PolicyChild
from meta_agent.policies.training.policy import place_of

PEER = Path(__file__).with_name("_vllm_peer.py")
DOOR = str(Path(__file__).with_name("speed.py"))
ENGINE = (sys.executable, DOOR, "rollouts", "--json", "--only-engine")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", default="nano")
    parser.add_argument("--slots", type=int, default=512)
    parser.add_argument("--rollouts", type=int, default=2048, help="per repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vllm-python", type=Path)
    parser.add_argument("--only-engine", action="store_true", help=argparse.SUPPRESS)


def end_to_end(given: argparse.Namespace) -> dict[str, Any]:
    scaffold = Scaffold("swe")
    rates, rollouts = [], []
    with competent() as session, PolicyChild(threads=given.threads) as child:
        child.load(given.policy)
        runner = Runner(scaffold.domain, session, child, STAMP)
        for repeat in range(given.repeats + 1):
            plans = search_plans(scaffold, given.rollouts, repeat)
            started = time.perf_counter()
            found = runner.run(plans, batch_size=given.slots)
            rates.append(given.rollouts / (time.perf_counter() - started))
            rollouts += found
    return {
        "rollouts_per_sec": [round(rate, 1) for rate in rates[1:]],
        "tokens_per_rollout": _mean(r.cost.get("completion_tokens", 0) for r in rollouts),
        "turns": _mean(r.turns for r in rollouts),
        "success": _mean(bool(r.outcome) for r in rollouts),
        "failed": sum(r.error is not None for r in rollouts),
    }


def engine_alone(given: argparse.Namespace) -> dict[str, Any]:
    """Runs in a process of its own (`--only-engine`), so that torch stays out of this one."""
    import torch
    from transformers import AutoModelForCausalLM

    from meta_agent.policies.engines.nano_engine import NanoEngine

    torch.set_num_threads(given.threads)
    path, _ = place_of(given.policy)
    engine = NanoEngine(AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32))
    scaffold = Scaffold("swe")
    rates, wins = [], []
    for repeat in range(given.repeats + 1):
        plans = search_plans(scaffold, given.rollouts, repeat)
        started = time.perf_counter()
        for start in range(0, len(plans), given.slots):
            attempts = lock_step(scaffold, engine, plans[start : start + given.slots])
            wins += [attempt.environment.grade().success for attempt in attempts]
        rates.append(given.rollouts / (time.perf_counter() - started))
    return {"rollouts_per_sec": [round(rate, 1) for rate in rates[1:]], "success": _mean(wins)}


def peer_environment(python: Path) -> dict[str, str]:
    """vLLM asks for these to be preloaded; whatever its venv has of them is."""
    wanted = [python.parent.parent / "lib" / name for name in ("libiomp5.so", "libtcmalloc.so")]
    found = [str(path) for path in wanted if path.exists()]
    preload = ":".join([*found, *filter(None, [os.environ.get("LD_PRELOAD")])])
    return {**os.environ, "LD_PRELOAD": preload}


def other_process(
    given: argparse.Namespace, argv: list[str], env: dict[str, str] | None = None
) -> dict[str, Any]:
    options = {
        "--slots": given.slots,
        "--rollouts": given.rollouts,
        "--repeats": given.repeats,
        "--threads": given.threads,
    }
    flags = [str(part) for pair in options.items() for part in pair]
    done = subprocess.run([*argv, *flags], stdout=subprocess.PIPE, text=True, check=True, env=env)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _mean(values: Any) -> float:
    return round(statistics.fmean(values), 3)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    if given.only_engine:
        return engine_alone(given)
    path, _ = place_of(given.policy)
    results = {
        "end_to_end": end_to_end(given),
        "engine": other_process(
            given,
            [sys.executable, DOOR, "rollouts", "--json", "--only-engine", "--policy", given.policy],
        ),
    }
    if given.vllm_python is not None:
        peer = [str(given.vllm_python), str(PEER), "--checkpoint", str(path), "--dtype", "float32"]
        results["vllm"] = other_process(given, peer, peer_environment(given.vllm_python))
    medians = {name: statistics.median(r["rollouts_per_sec"]) for name, r in results.items()}
    if "vllm" in medians:
        results["ratio"] = round(medians["end_to_end"] / medians["vllm"], 2)
        results["engine_ratio"] = round(medians["engine"] / medians["vllm"], 2)
    return {"setting": {"slots": given.slots, "threads": given.threads}, **results}
