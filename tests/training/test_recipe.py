"""Recipes: the algorithm and nothing else; what TRL would refuse is refused first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.errors import ConfigError
from meta_agent.policies.training._recipe import plan_training

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]


def plan(tmp_path: Path, **recipe: Any) -> Any:
    return plan_training(recipe, steps=5, seed=3, output_dir=str(tmp_path))


def test_a_step_is_one_generation_batch_in_one_microbatch(tmp_path: Path) -> None:
    made = plan(tmp_path, groups_per_step=6, num_generations=4, learning_rate=2e-4)
    config = made.config
    assert (made.groups, made.group_size, made.lora) == (6, 4, None)
    assert (config.generation_batch_size, config.per_device_train_batch_size) == (24, 24)
    assert (config.gradient_accumulation_steps, config.steps_per_generation) == (1, 1)
    assert (config.max_steps, config.seed, config.learning_rate) == (5, 3, 2e-4)


def test_lora_settings(tmp_path: Path) -> None:
    lora = plan(tmp_path, lora_r=4, lora_target_modules=["q_proj"]).lora
    assert (lora.r, lora.alpha, lora.target_modules) == (4, 8, ["q_proj"])


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"output_dir": "/etc"}, "output_dir"),
        ({"push_to_hub": True}, "push_to_hub"),
        ({"model_init_kwargs": {"trust_remote_code": True}}, "model_init_kwargs"),
        ({"max_steps": 10**6}, "max_steps"),
        ({"use_vllm": True}, "use_vllm"),
        ({"learning_rat": 1e-4}, "learning_rat"),
        ({"num_generations": 1}, "TRL refuses the recipe: GRPO requires at least 2"),
        ({"num_generations": 0}, "num_generations to 0"),
        ({"groups_per_step": True}, "groups_per_step"),
        ({"per_device_train_batch_size": 7}, "which the training algorithm does not have"),
        ({"loss_type": "ppo"}, "loss_type to 'ppo'"),
        ({"importance_sampling_level": "word"}, "importance_sampling_level"),
        ({"scale_rewards": "everything"}, "scale_rewards"),
        ({"optim": "my_optimizer"}, "optim"),
        ({"lr_scheduler_type": "zigzag"}, "zigzag"),
        ({"temperature": 0}, "temperature"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"num_iterations": 0}, "num_iterations"),
        ({"entropy_coef": "some"}, "entropy_coef"),
        ({"mask_truncated_completions": 1}, "mask_truncated_completions"),
        ({"lora_alpha": 8}, "without lora_r"),
    ],
)
def test_what_cannot_train_is_refused(tmp_path: Path, recipe: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(tmp_path, **recipe)


def test_every_setting_of_the_harness_recipe_is_known_here(tmp_path: Path) -> None:
    from meta_agent.core.harness.recipe import Recipe
    from meta_agent.core.lab.training import settings_of

    plan(tmp_path, **settings_of(Recipe()))
