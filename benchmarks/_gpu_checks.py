"""The checks of `gpu.py`, each in a process of its own: it prints its rows as lines of JSON."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch
from _gpu_sizes import CARD, FIELDS, TOY, Size
from _train_step import _plain
from transformers import PrinterCallback, TrainerCallback

from meta_agent.composition.placing import placing, train_settings
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import TokenRecord
from meta_agent.policies.training import RolloutEvent, Row, TrainJob, TrainSettings, _local
from meta_agent.policies.training._recipe import TrainingPlan, plan_training
from meta_agent.policies.training.memory import GIB, predict, shape_of
from meta_agent.policies.training.passes.ranks import Ranks

RowsOf = Callable[[Any, RolloutEvent], list[Row]]
GPU: Final = torch.cuda.is_available()
DEVICE: Final = torch.cuda.get_device_name() if GPU else "no GPU"
SHEETS: Final = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense operations a second in bfloat16."""
RANK, PROMPT, KEYS = 16, 16, ("name", "city", "item", "colour", "count")


def say(check: str, note: str = "", **figures: float) -> None:
    """Hands a row to the parent process."""
    row = {"check": check, "note": note, "figures": figures}
    print(json.dumps(row), file=sys.__stdout__, flush=True)


def now() -> float:
    """Returns the time at which all work on the device is done."""
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter()


def multiplied_per_sec(side: int) -> float:
    """Returns the operations a second of a large product in bfloat16."""
    left, right = torch.randn(2, side, side, device="cuda" if GPU else "cpu").bfloat16()
    times = [now()]
    for _ in range(10):
        torch.mm(left, right)
        times.append(now())
    return 2.0 * side**3 / min(after - before for before, after in pairwise(times))


def most_per_sec(side: int) -> float:
    """Returns the operations a second that MFU divides by."""
    listed = (rate for card, rate in SHEETS.items() if card in DEVICE)
    return next(listed, 0.0) or multiplied_per_sec(side)


def weights(given: argparse.Namespace, size: Size) -> None:
    """Writes random weights in bfloat16, with the tokenizer of nano, and times a product."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from meta_agent.policies.engines.nano_files import nano_config, write_nano

    began, nano = time.perf_counter(), nano_config()
    more = {"tie_word_embeddings": True, "max_position_embeddings": 40_960, "dtype": "bfloat16"}
    ends = {"pad_token_id": nano.pad_token_id, "eos_token_id": nano.eos_token_id}
    config = Qwen3Config(**dict(zip(FIELDS, size.models[given.model], strict=True)), **more, **ends)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda" if GPU else "cpu"):
        model = Qwen3ForCausalLM(config)
    given.place.mkdir()
    write_nano(model, given.place)
    sec, rate = time.perf_counter() - began, multiplied_per_sec(size.side)
    note = f"random, on {DEVICE}, torch {torch.__version__}; a product: {rate / 1e12:.3g} TFLOP/s"
    say(
        f"{given.model} weights",
        note,
        **{"sec": sec, "MFU %": 100 * rate / most_per_sec(size.side)},
    )


def stepped(trainer: Any) -> tuple[float, float]:
    """Trains; returns the last step's seconds, and the peak of memory in GiB."""
    times: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(now())

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Clock())
    trainer.train()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    peak = torch.cuda.max_memory_allocated() if GPU else resident
    return times[-1] - times[-2], peak / GIB


class Training:
    """One model and mode: both trainers take rows of one length after the other."""

    def __init__(self, given: argparse.Namespace, size: Size) -> None:
        self.place, self.count, self.adapters = given.place, size.rows, given.mode == "adapters"
        self.model = dict(zip(FIELDS, size.models[given.model], strict=True))
        rank = RANK if self.adapters else 0
        self.config = RunConfig(
            policy=f"hf:{self.place}", lora_rank=rank, precision="bfloat16", train_steps=2
        )
        self.settings, self.most = train_settings(self.config), most_per_sec(size.side)
        self.recipe = {"groups_per_step": 1, "num_generations": size.rows, "learning_rate": 1e-6}
        self.recipe |= {"lora_r": rank} if rank else {}

    def measured(self, length: int) -> tuple[str, dict[str, float]]:
        """Returns the row's note and its figures."""
        shape = shape_of(self.place)
        figures = {"predicted GiB": predict(shape, self.settings, row=length).total / GIB}
        domain: Any = SimpleNamespace(ceilings=SimpleNamespace(max_context_tokens=length))
        notes = []
        try:
            memory = placing(self.config, domain).memory
            figures |= {"run needs GiB": memory.total / GIB} if memory else {}
        except ConfigError as error:
            notes.append(f"a run refuses it: {error}")
        attention = 6 * shape.layers * self.model["num_attention_heads"] * self.model["head_dim"]
        per_token = (4 if self.adapters else 6) * shape.parameters + attention * length
        for name, train in (("", self.ours), ("TRL ", self.plain)):
            gc.collect()
            if GPU:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            try:
                sec, peak = train(self.rows(length))
            except Exception as error:  # this row names it, and the next one goes on
                notes.append(f"{name or 'ours '}failed: {type(error).__name__}: {error}"[:300])
                continue
            rate = self.count * length / sec
            figures |= {f"{name}tokens/s": rate, f"{name}peak GiB": peak, f"{name}sec": sec}
            figures[f"{name}MFU %"] = 100 * rate * per_token / self.most
        return "; ".join(notes), figures

    def rows(self, length: int) -> list[Row]:
        """Returns rows of so many tokens, with rewards that differ."""
        draw, size, words = random.Random(length), length - PROMPT, self.model["vocab_size"]
        logprobs: list[float | None] = [-math.log(words)] * size
        prompt, mask = list(range(PROMPT)), [1] * size
        replies = [draw.choices(range(words), k=size) for _ in range(self.count)]
        return [
            Row(float(place % 2), TokenRecord(prompt, reply, mask, logprobs))
            for place, reply in enumerate(replies)
        ]

    def ours(self, rows: list[Row]) -> tuple[float, float]:
        return stepped(run_trainer(self.place, self.settings, self.recipe, 2, lambda *_: rows))

    def plain(self, rows: list[Row]) -> tuple[float, float]:
        from datasets import Dataset

        plan = planned(self.recipe, 2)
        by_row = replace(
            plan.config, per_device_train_batch_size=1, gradient_accumulation_steps=self.count,
            generation_batch_size=None, steps_per_generation=None,
        )  # fmt: skip
        frozen = torch.bfloat16 if self.adapters else torch.float32
        common = {
            "model": _local._model(self.place, frozen).to("cuda" if GPU else "cpu"),
            "args": by_row, "processing_class": _local._tokenizer(self.place),
            "train_dataset": Dataset.from_dict({"prompt": ["placeholder"]}),
            "peft_config": plan.lora,
        }  # fmt: skip
        return stepped(_plain([rows, rows], plan, common))


def planned(recipe: dict[str, Any], steps: int) -> TrainingPlan:
    return plan_training(
        recipe, steps=steps, seed=1, output_dir=tempfile.mkdtemp(), on_cpu=not GPU, bfloat16=True,
        checkpointing=True,
    )  # fmt: skip


def run_trainer(
    place: Path, settings: TrainSettings, recipe: dict[str, Any], steps: int, rows_of: RowsOf
) -> Any:
    """Returns the trainer of a run over the policy in a folder."""
    policy, plan, ranks = (
        _local.load(place, settings, foreign=True),
        planned(recipe, steps),
        Ranks(),
    )
    job = TrainJob(recipe, steps, 1, Path(plan.config.output_dir) / "out")
    saves = _local._Saves(policy, job, plan, ranks, None)

    def ask(event: RolloutEvent, _: Any) -> list[Row]:
        return rows_of(policy, event)

    return _local._trainer(policy, plan, ask, lambda _: None, job, saves, ranks, None)


def training(given: argparse.Namespace, size: Size) -> None:
    trainings = Training(given, size)
    for length in size.lengths:
        note, figures = trainings.measured(length)
        say(f"{given.model} {given.mode} {length}", note, **figures)


def parts_right(reply: str, name: str) -> float:
    """Returns the share of the right values in a JSON reply to a row of `requests`."""
    try:
        parts: dict[str, Any] = json.loads(reply)
        values = dict(zip(KEYS, (name, "Oslo", "chair", "blue", 2), strict=True))
        right = [parts.get(key) == value for key, value in values.items()]
        return statistics.fmean(right)
    except (ValueError, AttributeError):
        return 0.0


def learning(given: argparse.Namespace, size: Size) -> None:
    """Trains adapters to read sentences, which are those of `_pretrained_cpu`."""
    from _pretrained_cpu import NAMES, RECIPE, SIZE, requests

    rewards: list[float] = []
    count = size.learning_groups * SIZE

    def rows_of(policy: Any, event: RolloutEvent) -> list[Row]:
        asked = requests(count, 40, event.step)
        replies = policy.engine.generate(asked)
        scores = [
            parts_right(reply.content, NAMES[place // SIZE]) for place, reply in enumerate(replies)
        ]
        rewards.append(statistics.fmean(scores))
        records = policy.engine.finish([request.key for request in asked])
        return [Row(score, record) for score, record in zip(scores, records, strict=True)]

    settings, steps = TrainSettings(RANK, "bfloat16", 8192), size.learning_steps
    recipe: dict[str, Any] = {**RECIPE, "groups_per_step": size.learning_groups}
    sec, peak = stepped(run_trainer(given.place, settings, recipe, steps, rows_of))
    few = max(1, steps // 4)
    first, last = statistics.fmean(rewards[:few]), statistics.fmean(rewards[-few:])
    note = f"mean reward {first:.2f} -> {last:.2f} in {steps} steps of {count} attempts"
    say("smollm2", note, **{"sec": sec, "peak GiB": peak})


def vllm(given: argparse.Namespace, _: Size) -> None:
    from _engines import publish

    precision = "bfloat16" if GPU else "float32"  # vLLM's adapters are in 16 bits on a GPU
    settings = argparse.Namespace(engines=1, rank=128, rounds=2, calls=256, precision=precision)
    took = publish(settings, Path(tempfile.mkdtemp()))
    parts = ", ".join(f"{name} {took[name]:.2f}" for name in ("write_sec", "load_sec", "first_sec"))
    say(
        "vllm",
        f"one adapter published: {parts}",
        **{"sec": took["whole_sec"], "tokens/s": took["tokens_per_sec"]},
    )


def main() -> None:
    given = argparse.Namespace(**json.loads(sys.argv[1]))
    given.place = Path(given.place)
    checks = {check.__name__: check for check in (weights, training, learning, vllm)}
    with contextlib.redirect_stdout(sys.stderr):
        checks[given.check](given, TOY if given.tiny else CARD)


if __name__ == "__main__":
    main()
