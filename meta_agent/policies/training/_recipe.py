"""Turns a harness's training recipe into TRL's GRPOConfig.

Promises: a recipe may set the algorithm and nothing else: the fields of `harness.Recipe`. They are
TRL's, so its documentation applies, except for `_OURS`. What belongs to a run (`lora_*`,
`optim`, memory) is checked here too. Names that reach files, networks or other code (`output_dir`,
`hub_token`, `model_init_kwargs`, ...) are not on the list. An unknown name is refused, since a
recipe is written by whoever edits the harness. What TRL itself refuses is refused before anything
starts, by constructing its config.
Not covered: whether a recipe is any good.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.harness.recipe import Recipe
from meta_agent.core.protocols import JSON

# Not for GRPO: the runner on the host, or the warm-up, uses them.
_OURS: Final = frozenset(
    {
        *("groups_per_step", "top_p", "refill_factor"),
        *("generate", "sft_steps", "sft_learning_rate"),
    }
)
# `optim` comes with no recipe of a harness: who compares gradients takes plain descent.
_ALGORITHM: Final = frozenset(Recipe.__dataclass_fields__) - _OURS | {"optim"}
DEFAULTS: Final[Mapping[str, JSON]] = {"groups_per_step": 16, "num_generations": 8}


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A checked recipe: TRL's config, the number and size of groups in a step, and the adapters."""

    config: Any  # trl.GRPOConfig
    groups: int
    group_size: int
    lora: Any  # peft.LoraConfig; None: all weights are trained


def plan_training(
    recipe: Mapping[str, JSON],
    *,
    steps: int,
    seed: int,
    output_dir: str,
    on_cpu: bool = True,
    bfloat16: bool = False,
    checkpointing: bool = False,
) -> TrainingPlan:
    """Returns the checked recipe as TRL's config. Raises ConfigError if a setting is refused.

    Args:
        bfloat16: whether matrices are multiplied in bfloat16.
        checkpointing: whether a layer's activations are computed again in the backward pass.
    """
    values = {**DEFAULTS, **recipe}
    groups, size = values["groups_per_step"], values["num_generations"]
    algorithm = {name: value for name, value in values.items() if name in _ALGORITHM}
    run = {
        "output_dir": output_dir,
        "max_steps": steps,
        "seed": seed,
        "use_cpu": on_cpu,
        "bf16": bfloat16,
        "gradient_checkpointing": checkpointing,
        # One optimiser step per rollout batch; what is in memory at once is the trainer's business.
        "per_device_train_batch_size": groups * size,
    }
    config = _construct(algorithm | run)
    return TrainingPlan(config, groups, size, _adapters(values.get("lora_r")))


def _construct(settings: dict[str, JSON]) -> Any:
    from trl import GRPOConfig

    fixed = {
        "report_to": [],
        "save_strategy": "no",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "shuffle_dataset": False,
        "dataloader_pin_memory": False,
        "use_vllm": False,
        "max_completion_length": 256,  # only dr_grpo's denominator: the runner limits rollouts
        # Of rows that an engine sampled; a harsher mode would drop whole rows of long episodes.
        "vllm_importance_sampling_mode": "token_truncate",
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return GRPOConfig(**settings, **fixed)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"TRL refuses the recipe: {error}", hint="change that setting in the harness's recipe"
        ) from error


def _adapters(rank: int | None) -> Any:
    """Returns peft's settings of adapters of a rank, or None."""
    if not rank:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
