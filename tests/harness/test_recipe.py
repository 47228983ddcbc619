from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import Recipe, parse_recipe
from meta_agent.core.harness.recipe import LOSS_TYPES, PRESETS

GOOD = {
    "defaults": "",
    "prototype": "groups_per_step = 16\nnum_generations = 8\nlearning_rate = 1e-4",
    "clip higher": "epsilon = 0.2\nepsilon_high = 0.28",
    "two-sided": 'delta = 1.5\nloss_type = "grpo"',
    "gspo": 'loss_type = "grpo"\nimportance_sampling_level = "sequence"',
    "warm up": 'warmup_steps = 0.1\nlr_scheduler_type = "cosine"',
    "anchored": "beta = 0.04\nmax_grad_norm = 0.5\nweight_decay = 0.01",
    "sampling": "temperature = 1.2\ntop_p = 0.95",
    **{f"loss {name}": f'loss_type = "{name}"' for name in LOSS_TYPES if name != "luspo"},
    **{f"preset {name}": f'preset = "{name}"' for name in PRESETS},
    "loss luspo": 'loss_type = "luspo"\nimportance_sampling_level = "sequence"',
}
OURS = (  # not TRL's
    *("groups_per_step", "refill_factor", "generate"),
    *("sft_steps", "sft_learning_rate"),
)
BAD = {
    "refill_factor = 0.5": "refill_factor .* 0.5",
    'preset = "ppo"': "grpo, dr_grpo, dapo",
    "learning_rate = 0.2": "0.1",
    "learning_rate = nan": "learning_rate",
    'learning_rate = "1e-4"': "learning_rate",
    "learning_rate = true": "learning_rate",
    "learnin_rate = 1e-4": "learning_rate",
    "max_steps = 10": "max_steps",
    "num_generations = 1": "num_generations",
    "num_generations = 8.0": "num_generations",
    'loss_type = "ppo"': "dapo",
    "loss_type = [1]": "loss_type",
    "temperature = 0.0": "temperature",
    "warmup_steps = 2.5": "warmup_steps",
    "delta = 1.1": "epsilon",
    "mask_truncated_completions = 1": "mask_truncated_completions",
    'loss_type = "luspo"': "sequence",
    'loss_type = "vespo"\nimportance_sampling_level = "sequence"': "token",
    "[table]": "table",
    "beta = 1 = 2": "recipe.toml",
}


def test_sound_recipes_are_read() -> None:
    assert all(isinstance(parse_recipe(text), Recipe) for text in GOOD.values())


@pytest.mark.parametrize("text", BAD)
def test_an_unsound_recipe_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=BAD[text]):
        parse_recipe(text)


@pytest.mark.train
@pytest.mark.parametrize("name", GOOD)
def test_trl_takes_what_we_take(name: str, tmp_path: Path) -> None:
    recipe = asdict(parse_recipe(GOOD[name]))
    settings = {key: value for key, value in recipe.items() if key not in OURS}
    config = grpo_config(tmp_path, **settings)
    for key, value in settings.items():
        assert getattr(config, key) == value, key


def grpo_config(directory: Path, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # third-party imports warn about themselves
        trl = pytest.importorskip("trl", reason="needs the train extra")
        return trl.GRPOConfig(
            output_dir=str(directory), use_cpu=True, bf16=False, report_to=[], **settings
        )


def test_a_key_of_the_file_overrides_that_of_the_preset() -> None:
    recipe = parse_recipe('epsilon_high = 0.4\npreset = "dapo"\nnum_generations = 4')
    assert (recipe.loss_type, recipe.epsilon_high, recipe.num_generations) == ("dapo", 0.4, 4)
    assert recipe.mask_truncated_completions
    assert parse_recipe('preset = "gspo"').importance_sampling_level == "sequence"
