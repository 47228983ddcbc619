"""SmolLM2 on a CPU: our sampling beside `generate`, and our training step beside plain TRL's.

Needs `meta-agent doctor --policy smollm2 --fetch`. Both sides take the same prompts, weights in
bfloat16, and LoRA of rank 16; both trainers take the same rows. Turns alternate between the sides,
since other work may load the machine; a figure is the median of its turns. `cpu_sec` is processor
time of the process, user and system.

Not covered: the sandbox and grading (`step` has them).
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from _train_step import _ours, _plain

from meta_agent.core.protocols import GenerateRequest
from meta_agent.policies.pretrained import pretrained_place
from meta_agent.policies.training import Row, TrainSettings
from meta_agent.policies.training.memory import kept_tokens, shape_of

GROUPS, SIZE, SAMPLED_ROWS = 8, 8, 32
RECIPE = {"groups_per_step": GROUPS, "num_generations": SIZE, "learning_rate": 3e-4, "lora_r": 16}
NAMES = ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana")


class Time(NamedTuple):
    """What something took."""

    sec: float
    cpu_sec: float
    tokens: int = 0


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=40)


def timed(work: Callable[[int], int], turn: int) -> Time:
    began, used = time.perf_counter(), time.process_time()
    tokens = work(turn)
    return Time(time.perf_counter() - began, time.process_time() - used, tokens)


def requests(count: int, tokens: int, turn: int) -> list[GenerateRequest]:
    """Groups of eight attempts at a task: a worked example, then a sentence to read."""
    example = "Ada in Rome bought three red lamps."
    answer = '{"name": "Ada", "city": "Rome", "item": "lamp", "colour": "red", "count": 3}'
    return [
        GenerateRequest(
            f"{turn}-{row}",
            f"task {row // SIZE}",
            row % SIZE,
            turn,
            0,
            [
                {"role": "system", "content": "Reply with a JSON object and nothing else."},
                {"role": "user", "content": example},
                {"role": "assistant", "content": answer},
                {"role": "user", "content": f"{NAMES[row // SIZE]} in Oslo sold two blue chairs."},
            ],
            tokens,
            1.0,
        )
        for row in range(count)
    ]


def exam(turn: int) -> list[GenerateRequest]:
    """Sixty different tasks, one attempt each, whose prompts begin with the same examples."""
    asked = requests(60, 64, turn)
    examples = [*asked[0].messages[1:3]] * 3
    return [
        replace(
            request,
            task_key=f"task {row}",
            messages=[
                request.messages[0],
                *examples,
                {"role": "user", "content": f"{NAMES[row % 8]} in Oslo sold {row + 2} chairs."},
            ],
        )
        for row, request in enumerate(asked)
    ]


class Sampling:
    """Both samplers over one model."""

    def __init__(self, place: Path, given: argparse.Namespace) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from meta_agent.policies.engines.hf_engine import HfEngine

        self.tokens = given.tokens
        self.tokenizer = AutoTokenizer.from_pretrained(place)
        self.model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.bfloat16).eval()
        self.engine = HfEngine(self.model, self.tokenizer, bfloat16=True)

    def ours(self, turn: int) -> int:
        replies = self.engine.generate(requests(SAMPLED_ROWS, self.tokens, turn))
        return sum(reply.completion_tokens for reply in replies)

    def exam(self, turn: int, *, shares: bool) -> int:
        """Answers sixty tasks. With `shares`, what their prompts begin with is read once."""
        self.engine._decoder._shares = shares
        return sum(reply.completion_tokens for reply in self.engine.generate(exam(turn)))

    def generate(self, turn: int) -> int:
        """Returns the sampled tokens up to each row's end, as ours are counted."""
        import torch

        torch.manual_seed(turn)
        asked = [request.messages for request in requests(SAMPLED_ROWS, self.tokens, turn)]
        batch = self.tokenizer.apply_chat_template(
            asked,
            add_generation_prompt=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
            tokenizer_kwargs={"padding_side": "left"},
        )
        made = self.model.generate(
            **batch, do_sample=True, top_k=0, max_new_tokens=self.tokens, pad_token_id=0
        )
        new = made[:, batch["input_ids"].shape[1] :]
        return int((new != 0).sum())

    def rows(self, turn: int) -> list[Row]:
        """One event's rows, with rewards that differ inside each group."""
        asked = requests(GROUPS * SIZE, self.tokens, turn)
        self.engine.generate(asked)
        records = self.engine.finish([request.key for request in asked])
        draw = random.Random(turn)
        return [Row(draw.random(), record) for record in records]


def step(kind: str, place: Path, batch: list[Row]) -> Time:
    """Trains two steps on the same rows; returns the second one's time."""
    import torch
    from datasets import Dataset
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        PrinterCallback,
        TrainerCallback,
        set_seed,
    )

    from meta_agent.policies.training._recipe import plan_training
    from meta_agent.policies.training.passes.chunks import can_pack

    set_seed(1)
    ends: list[tuple[float, float]] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append((time.perf_counter(), time.process_time()))

    with tempfile.TemporaryDirectory() as scratch:
        plan = plan_training(
            RECIPE, steps=2, seed=1, output_dir=scratch, bfloat16=True, checkpointing=True
        )
        assert plan.lora is not None
        common = {
            "model": AutoModelForCausalLM.from_pretrained(place, dtype=torch.bfloat16),
            "args": plan.config,
            "processing_class": AutoTokenizer.from_pretrained(place),
            "train_dataset": Dataset.from_dict({"prompt": ["placeholder"] * plan.groups}),
            "peft_config": plan.lora,
        }
        if kind == "ours":
            limit = kept_tokens(shape_of(place), TrainSettings(16, "bfloat16"))
            ours = {"packs": can_pack(common["model"]), "kept_tokens": limit}
            trainer = _ours([batch, batch], plan, common | ours)
        else:
            trainer = _plain([batch, batch], plan, common)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Clock())
        trainer.train()
    (began, used), (ended, used_at_end) = ends
    return Time(ended - began, used_at_end - used)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(given.threads)
    place = pretrained_place("smollm2")
    sampling = Sampling(place, given)
    times: dict[str, list[Time]] = {}
    for turn in range(given.turns + 1):  # the first warms up
        works: dict[str, Callable[[int], int]] = {
            "sampling generate": sampling.generate,
            "sampling ours": sampling.ours,
            "exam, prompts read whole": partial(sampling.exam, shares=False),
            "exam ours": partial(sampling.exam, shares=True),
        }
        for name, work in works.items():
            taken = timed(work, turn)
            times.setdefault(name, []).extend([taken] if turn else [])
    batch = sampling.rows(given.turns + 1)
    for _ in range(given.turns):
        for name in ("plain TRL", "ours"):
            times.setdefault(f"step {name}", []).append(step(name, place, batch))
    table = {name: figures(taken) for name, taken in times.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    return {**table, "peak_gib": round(peak, 2)}


def figures(times: list[Time]) -> dict[str, float]:
    middle = {
        name: statistics.median(getattr(taken, name) for taken in times)
        for name in ("sec", "cpu_sec")
    }
    row = {name: round(value, 2) for name, value in middle.items()}
    if times[0].tokens:
        row["per_sec"] = round(statistics.median(t.tokens / t.sec for t in times))
        row["per_cpu_sec"] = round(statistics.median(t.tokens / t.cpu_sec for t in times))
    return row
