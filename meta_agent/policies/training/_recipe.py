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

import dataclasses
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.harness.recipe import LOSS_TYPES, Recipe
from meta_agent.core.protocols import JSON

# Not for GRPO: the runner on the host, or the warm-up, uses them.
_OURS: Final = frozenset(
    {
        *("groups_per_step", "top_p", "refill_factor"),
        *("generate", "hint_fraction", "sft_steps", "sft_learning_rate"),
    }
)
_ALGORITHM: Final = frozenset(Recipe.__dataclass_fields__) - _OURS
# What belongs to a run and not to a recipe: memory, adapters, and the length TRL divides by.
_LORA: Final = frozenset({"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules"})
_PLACED: Final = frozenset({"optim", "max_completion_length"})
# TRL looks at these only once training runs, so they are checked here.
_CHOICES: Final[Mapping[str, tuple[JSON, ...]]] = {
    "loss_type": LOSS_TYPES,
    "importance_sampling_level": ("token", "sequence"),
    "scale_rewards": ("group", "batch", "none", True, False),
    "optim": ("adamw_torch", "adamw_torch_fused", "sgd", "adafactor"),
}
_AT_LEAST: Final[Mapping[str, float]] = {
    "learning_rate": 0.0,
    "weight_decay": 0.0,
    "max_grad_norm": 0.0,
    "beta": 0.0,
    "epsilon": 0.0,
    "num_iterations": 1,
    "max_completion_length": 1,
    "warmup_steps": 0,
    "top_p": 1e-6,
    "lora_alpha": 1,
    "lora_dropout": 0.0,
}
DEFAULTS: Final[Mapping[str, JSON]] = {
    "groups_per_step": 16,
    "num_generations": 8,
    "max_completion_length": 256,  # only dr_grpo's denominator: the runner limits rollouts
}


@dataclass(frozen=True, slots=True)
class Lora:
    """Settings of the low-rank adapters (LoRA) that are trained in place of all weights."""

    r: int
    alpha: int
    dropout: float
    target_modules: str | list[str]

    def to_peft(self) -> Any:
        """Returns the same settings as peft's LoraConfig."""
        from peft import LoraConfig

        return LoraConfig(
            r=self.r,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=self.target_modules,
            task_type="CAUSAL_LM",
        )


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A checked recipe: TRL's config, the number and size of groups in a step, and the adapters."""

    config: Any  # trl.GRPOConfig
    groups: int
    group_size: int
    lora: Lora | None


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
    _check_names(values)
    groups = _positive_int(values, "groups_per_step")
    size = _positive_int(values, "num_generations")
    algorithm = {name: value for name, value in values.items() if name in _ALGORITHM | _PLACED}
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
    return TrainingPlan(config, groups, size, _lora(values))


def _check_names(values: Mapping[str, JSON]) -> None:
    names = _ALGORITHM | _OURS | _PLACED | _LORA
    unknown = sorted(set(values) - names)
    if unknown:
        raise ConfigError(
            f"the recipe sets {', '.join(unknown)}, which the training algorithm does not have",
            hint="remove it from the harness's recipe; a setting of the run is a flag of evolve",
        )
    for name, choices in _CHOICES.items():
        if name in values and values[name] not in choices:
            raise ConfigError(
                f"the recipe sets {name} to {values[name]!r}; set one of {_listed(choices)}"
            )
    for name, least in _AT_LEAST.items():
        if name in values and not (_is_number(values[name]) and values[name] >= least):
            raise ConfigError(
                f"the recipe sets {name} to {values[name]!r}; set a number of at least {least:g}"
            )
    temperature = values.get("temperature", 1.0)
    if not _is_number(temperature) or temperature <= 0:
        raise ConfigError(
            f"the recipe sets temperature to {temperature!r}; set a number above 0, since "
            "training samples"
        )


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _listed(choices: tuple[JSON, ...]) -> str:
    return ", ".join(str(choice) for choice in choices if not isinstance(choice, bool))


def _positive_int(values: Mapping[str, JSON], name: str) -> int:
    value = values[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"the recipe sets {name} to {value!r}; set a whole number above 0")
    return value


def _check_types(settings: Mapping[str, JSON]) -> None:
    """Raises ConfigError for a value of the wrong type, which TRL would find only in training."""
    from trl import GRPOConfig

    for field in dataclasses.fields(GRPOConfig):
        value, default = settings.get(field.name), field.default
        if value is None or field.name in _CHOICES:
            continue
        if isinstance(default, bool):
            sound = isinstance(value, bool)
        elif isinstance(default, int) and field.name != "warmup_steps":  # below 1 it is a share
            sound = isinstance(value, int) and not isinstance(value, bool)
        else:
            sound = not isinstance(default, int | float) or _is_number(value)
        if not sound:
            raise ConfigError(
                f"the recipe sets {field.name} to {value!r}; set a {type(default).__name__} value"
            )


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
        # Of rows that an engine sampled; a harsher mode would drop whole rows of long episodes.
        "vllm_importance_sampling_mode": "token_truncate",
    }
    _check_types(settings)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return GRPOConfig(**settings, **fixed)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"TRL refuses the recipe: {error}", hint="change that setting in the harness's recipe"
        ) from error


def _lora(values: Mapping[str, JSON]) -> Lora | None:
    if not _LORA & set(values):
        return None
    if "lora_r" not in values:
        raise ConfigError("the recipe sets lora_* without lora_r; set lora_r to the rank too")
    rank = _positive_int(values, "lora_r")
    return Lora(
        r=rank,
        alpha=int(values.get("lora_alpha", 2 * rank)),
        dropout=float(values.get("lora_dropout", 0.0)),
        target_modules=values.get("lora_target_modules", "all-linear"),
    )
