"""Recipes: the algorithm and nothing else; what TRL would refuse is refused first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")

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
    lora = plan(tmp_path, lora_r=4).lora
    assert (lora.r, lora.lora_alpha) == (4, 8)


def test_every_setting_of_the_harness_recipe_is_known_here(tmp_path: Path) -> None:
    from meta_agent.core.harness.recipe import Recipe
    from meta_agent.core.lab.training import settings_of

    plan(tmp_path, **settings_of(Recipe()))
