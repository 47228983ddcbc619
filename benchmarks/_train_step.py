"""Seconds per training step of nano-swe, beside plain TRL on the same rollouts.

* `whole_step`: what a run really does, rollouts in the sandbox included (median, first step left
  out), and its two parts as the trainer saw them.
* `trainer`: our trainer on the rows which that run produced, replayed in one process.
* `plain_trl`: `GRPOTrainer` itself on the same rows and settings, replayed in one process.
* `one_rank`, `two_ranks`: the policy child on those rows, with one thread a rank.

`cpu_sec` is processor time, of all ranks together, for a machine that has others on it. Replays
change the order of nothing: all see each step's rows once, under the same seed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from _nano import STAMP, competent

from meta_agent.core.lab.training import settings_of
from meta_agent.core.rollouts import Runner
from meta_agent.domains.nano import NanoSwe
from meta_agent.policies.training import (
    PolicyChild,
    RolloutEvent,
    Row,
    TrainJob,
    TrainSettings,
    _wire,
)
from meta_agent.policies.training.policy import place_of
from meta_agent.policies.training.run import _Loop

DOOR = str(Path(__file__).with_name("speed.py"))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", default="nano")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--replay", choices=["trainer", "plain_trl"], help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)


def real_run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Trains for real; leaves the rows and the recipe in `rows.json`."""
    batches: list[list[Any]] = []
    times = [time.perf_counter()]
    metrics: list[Any] = []
    with competent() as session:
        recipe = settings_of(session.recipe)
        with PolicyChild(threads=given.threads) as child:
            child.load(given.policy)
            domain = NanoSwe()
            runner = Runner(domain, session, child, STAMP)
            loop = _Loop(runner, session, domain, recipe, 1, 0, None)

            def provide(event: RolloutEvent) -> list[Row]:
                rows = loop.provide(event)
                batches.append([_wire.row_to_json(row) for row in rows])
                return rows

            def on_metrics(measured: Any) -> None:
                times.append(time.perf_counter())
                metrics.append(measured.values)

            job = TrainJob(recipe, given.steps, 1, folder / "out")
            child.train(job, provide, on_metrics)
    (folder / "rows.json").write_text(json.dumps({"recipe": recipe, "batches": batches}))
    steps = [after - before for before, after in pairwise(times[1:])]
    return {
        "sec": _median(steps),
        "rollout_sec": _median(m["rollout_sec"] for m in metrics[1:]),
        "train_sec": _median(m["train_sec"] for m in metrics[1:]),
        "dead_group_ratio": _median(m["dead_group_ratio"] for m in metrics),
        "rows": len(batches[0]),
    }


def replay(given: argparse.Namespace) -> dict[str, Any]:
    """One trainer on recorded rows: seconds per step."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, set_seed

    from meta_agent.policies.training._recipe import plan_training

    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    torch.set_num_threads(given.threads)
    recorded = json.loads(given.rows.read_text())
    batches = [[_wire.row_from_json(row) for row in batch] for batch in recorded["batches"]]
    set_seed(1)
    plan = plan_training(
        recorded["recipe"], steps=len(batches), seed=1, output_dir=str(given.rows.parent)
    )
    path, _ = place_of(given.policy)
    ends: list[float] = []
    used: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())
            used.append(time.process_time())

    common = {
        "model": AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32),
        "args": plan.config,
        "processing_class": AutoTokenizer.from_pretrained(path),
        "train_dataset": Dataset.from_dict({"prompt": ["placeholder"] * plan.groups}),
    }
    make = _ours if given.replay == "trainer" else _plain
    trainer = make(batches, plan, common)
    trainer.add_callback(Clock())
    trainer.train()
    return {"sec": _steps(ends), "cpu_sec": _steps(used)}


def by_ranks(given: argparse.Namespace, folder: Path, count: int) -> dict[str, Any]:
    """The recorded rows through the policy child with so many ranks."""
    import psutil

    recorded = json.loads((folder / "rows.json").read_text())
    batches = [[_wire.row_from_json(row) for row in batch] for batch in recorded["batches"]]
    used: list[float] = []
    train_sec: list[float] = []
    with PolicyChild(threads=1, settings=TrainSettings(ranks=count)) as child:
        child.load(given.policy)

        def on_metrics(measured: Any) -> None:
            parent = psutil.Process(child.pid)
            times = [one.cpu_times() for one in (parent, *parent.children())]
            used.append(sum(one.user + one.system for one in times))
            train_sec.append(measured.values["train_sec"])

        job = TrainJob(recorded["recipe"], len(batches), 1, folder / f"ranks-{count}")
        child.train(job, lambda event: batches[event.step], on_metrics)
    return {"sec": _median(train_sec[1:]), "cpu_sec": _steps(used)}


def _steps(ends: list[float]) -> float:
    return _median(after - before for before, after in pairwise(ends))


def _ours(batches: list[list[Row]], plan: Any, common: dict[str, Any]) -> Any:
    from meta_agent.policies.training._trainer import HostedTrainer

    return HostedTrainer(
        ask=lambda step: batches[step], emit=lambda _: None, group_size=plan.group_size, **common
    )


def _plain(batches: list[list[Row]], plan: Any, common: dict[str, Any]) -> Any:
    from trl import GRPOTrainer

    from meta_agent.policies.training._trainer import _trainable

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        batch = batches[trainer.state.global_step]
        tokens = [_trainable(row.tokens, 0) for row in batch]
        return {
            "prompt_ids": [t.prompt_ids for t in tokens],
            "completion_ids": [t.completion_ids for t in tokens],
            "env_mask": [t.mask for t in tokens],
            "logprobs": [t.logprobs for t in tokens],
            "told": [row.reward for row in batch],
        }

    def told_reward(told: list[float | None], **_: Any) -> list[float | None]:
        return told

    return GRPOTrainer(reward_funcs=[told_reward], rollout_func=rollout, **common)


def _median(values: Any) -> float:
    return round(float(statistics.median(values)), 4)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    if given.replay:
        return replay(given)
    with tempfile.TemporaryDirectory() as folder:
        results = {"whole_step": real_run(given, Path(folder))}
        for kind in ("trainer", "plain_trl"):
            argv = [
                sys.executable, DOOR, "step", "--json", "--replay", kind,
                "--rows", f"{folder}/rows.json",
                "--policy", given.policy, "--threads", str(given.threads),
            ]  # fmt: skip
            done = subprocess.run(
                argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
            )
            results[kind] = json.loads(done.stdout.splitlines()[-1])
        results["one_rank"] = by_ranks(given, Path(folder), 1)
        results["two_ranks"] = by_ranks(given, Path(folder), 2)
    results["trainer_ratio"] = round(results["plain_trl"]["sec"] / results["trainer"]["sec"], 2)
    return results
