"""Rows of a training, and the trainer or plain TRL that trains on them."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from meta_agent.core.protocols import TokenRecord
from meta_agent.policies.training._wire import Row

GROUPS, SIZE = 4, 4


def rows(
    seed: int = 0,
    *,
    dead: tuple[int, ...] = (1,),
    missing: tuple[int, ...] = (),
    shared: bool = False,
) -> list[Row]:
    """Ragged rows with environment tokens in between; the groups in `dead` have no spread.

    `shared`: the rows of a group have one prompt.
    """
    rnd = random.Random(seed)
    made = []
    for index in range(GROUPS * SIZE):
        group = index // SIZE
        prompts = random.Random(group) if shared else rnd
        prompt = [prompts.randint(2, 96) for _ in range(3 + 4 * group)]
        mask = [1] + [int(rnd.random() < 0.6) for _ in range(rnd.randint(2, 25))] + [1]
        completion = [rnd.randint(2, 96) for _ in mask]
        completion[-1] = 1 if index % 3 else completion[-1]  # some end by the stop token
        logprobs = [-4.0 * m for m in mask]
        reward: float | None = 0.5 if group in dead else rnd.random()
        if index in missing:
            made.append(Row(None, None))
        else:
            made.append(Row(reward, TokenRecord(prompt, completion, mask, logprobs)))
    return made


def recipe(**changes: Any) -> dict[str, Any]:
    plain = {
        "groups_per_step": GROUPS,
        "num_generations": SIZE,
        "learning_rate": 0.5,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 100.0,
    }
    return plain | changes


def train(
    kind: str,
    tmp_path: Path,
    policy: Path,
    batches: list[list[Row]],
    tokens_per_pass: int = 1536,
    corrected: bool = False,
    packs: bool = False,
    **changes: Any,
) -> tuple[dict[str, Any], list[Any]]:
    """Trains by `HostedTrainer` or by plain `GRPOTrainer`; returns weights and emitted events.

    `corrected`: as where an engine sampled; each time it is given the weights is an event, too.
    """
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
    from trl import GRPOTrainer

    from meta_agent.policies.training._recipe import plan_training
    from meta_agent.policies.training._trainer import HostedTrainer, _trainable

    torch.set_num_threads(1)
    set_seed(0)
    plan = plan_training(
        recipe(**changes), steps=len(batches), seed=0, output_dir=str(tmp_path), checkpointing=packs
    )
    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
    events: list[Any] = []

    def publish() -> None:
        events.append({"event": "published"})

    common = {
        "model": model,
        "args": plan.config,
        "processing_class": AutoTokenizer.from_pretrained(policy),
        "train_dataset": Dataset.from_dict({"prompt": ["placeholder"] * plan.groups}),
    }
    if kind == "hosted":
        trainer: Any = HostedTrainer(
            ask=lambda step: batches[step],
            emit=events.append,
            group_size=SIZE,
            tokens_per_pass=tokens_per_pass,
            publish=publish if corrected else None,
            packs=packs,
            kept_tokens=60,
            **common,
        )
    else:

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

        trainer = GRPOTrainer(reward_funcs=[told_reward], rollout_func=rollout, **common)
        if corrected:
            trainer.use_vllm, trainer._last_loaded_step = True, -1
            trainer.vllm_generation = SimpleNamespace(sync_weights=publish)
    trainer.train()
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    return weights, events


def moved(weights: dict[str, Any], policy: Path) -> float:
    from safetensors.torch import load_file

    start = load_file(policy / "model.safetensors")
    return max((weights[name] - value).abs().max().item() for name, value in start.items())
