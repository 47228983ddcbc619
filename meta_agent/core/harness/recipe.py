"""The training recipe: `recipe.toml` parsed into a frozen `Recipe`, with TRL's names.

Promises: refuses a recipe that TRL's `GRPOConfig` would refuse, and one that cannot train (a
learning rate of 0, one rollout a group). It does so before a process starts, in one sentence that
names key, value and range. What the evaluator owns (turns, token limits, steps, seeds) has no key
here. TRL itself is not imported.
`preset = "dapo"` sets the keys of a published algorithm; other keys of the file override them.
Does not cover: whether a recipe is any good.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.harness.contract import parse_contract
from meta_agent.core.protocols import HarnessTree

RECIPE_FILE: Final = "recipe.toml"
LOSS_TYPES: Final = ("dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo")
SCHEDULERS: Final = ("linear", "cosine", "constant", "constant_with_warmup")

_GENERATOR: Final = r"\w+(?::\w+=[\w.@+-]+)*"
_GENERATORS: Final = re.compile(rf"{_GENERATOR}(?:,{_GENERATOR})*", re.ASCII)
_GENERATORS_CHARS: Final = 4096  # all generators of reasoning-gym, each with its level and size

Check = Callable[[Any], str | None]  # a complaint, or None


def _number(low: float, high: float, *, above: bool = False) -> Check:
    """Returns a check for a finite number from `low` (with `above`: just above it) to `high`."""

    def check(value: Any) -> str | None:
        good = type(value) in (int, float) and math.isfinite(value)
        if good and (low < value if above else low <= value) and value <= high:
            return None
        return f"a number {'above' if above else 'from'} {low:g} to {high:g}"

    return check


def _integer(low: int, high: int) -> Check:
    def check(value: Any) -> str | None:
        return None if type(value) is int and low <= value <= high else f"{low} to {high}, whole"

    return check


def _choice(*choices: str) -> Check:
    def check(value: Any) -> str | None:
        return None if value in choices else f"one of {', '.join(choices)}"

    return check


def _flag(value: Any) -> str | None:
    return None if type(value) is bool else "true or false"


def _generators(value: Any) -> str | None:
    form = f"NAME[:PARAMETER=VALUE...][,NAME...], of at most {_GENERATORS_CHARS} characters"
    short = isinstance(value, str) and len(value) <= _GENERATORS_CHARS
    return None if short and _GENERATORS.fullmatch(value) else form


def _optional(inner: Check) -> Check:
    return lambda value: None if value is None else inner(value)


def _knob(default: Any, check: Check) -> Any:
    """Defines a field of `Recipe`: its default, and what its value may be."""
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, slots=True)
class Recipe:
    """The hyperparameters that train a policy, by TRL's names where TRL has them."""

    groups_per_step: int = _knob(16, _integer(1, 4096))
    """Prompts in one optimiser step; each is tried `num_generations` times."""
    refill_factor: float | None = _knob(None, _optional(_number(1, 10)))
    """A step may try this many times `groups_per_step` prompts, to replace dropped groups."""
    num_generations: int = _knob(8, _integer(2, 1024))
    temperature: float = _knob(1.0, _number(0, 10, above=True))
    """The sampling temperature in training; the evaluator has its own."""
    top_p: float = _knob(1.0, _number(0, 1, above=True))
    learning_rate: float = _knob(1e-4, _number(0, 0.1, above=True))
    lr_scheduler_type: str = _knob("constant", _choice(*SCHEDULERS))
    warmup_steps: float = _knob(0.0, _number(0, 1e6))
    """A whole number of steps, or a share of all steps if it is below 1."""
    weight_decay: float = _knob(0.0, _number(0, 1))
    adam_beta1: float = _knob(0.9, _number(0, 0.9999))
    adam_beta2: float = _knob(0.999, _number(0, 0.99999))
    max_grad_norm: float = _knob(1.0, _number(0, 1e6, above=True))
    loss_type: str = _knob("dapo", _choice(*LOSS_TYPES))
    scale_rewards: str = _knob("group", _choice("group", "batch", "none"))
    importance_sampling_level: str = _knob("token", _choice("token", "sequence"))
    num_iterations: int = _knob(1, _integer(1, 64))
    beta: float = _knob(0.0, _number(0, 100))
    epsilon: float = _knob(0.2, _number(0, 10, above=True))
    epsilon_high: float | None = _knob(None, _optional(_number(0, 100, above=True)))
    delta: float | None = _knob(None, _optional(_number(1, 1000, above=True)))
    top_entropy_quantile: float = _knob(1.0, _number(0, 1, above=True))
    mask_truncated_completions: bool = _knob(False, _flag)
    generate: str | None = _knob(None, _optional(_generators))
    """Further training tasks, which the domain's generators make: NAME[:PARAMETER=VALUE...]."""
    sft_steps: int = _knob(0, _integer(0, 100_000))
    """The first steps of a training, which imitate clean successes (a warm-up). 0: none."""
    sft_learning_rate: float = _knob(1e-4, _number(0, 0.1, above=True))

    @property
    def rows_per_step(self) -> int:
        """Returns the number of rollouts that one optimiser step trains on."""
        return self.groups_per_step * self.num_generations

    @property
    def most_rows_per_step(self) -> int:
        """Returns the most rollouts in a step if groups that the filter drops are replaced."""
        return int(self.groups_per_step * (self.refill_factor or 1)) * self.num_generations


SFT_ROWS: Final = 16
"""Rows that one optimiser step of a warm-up imitates."""

_KNOBS: Final = {knob.name: knob for knob in fields(Recipe)}


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "grpo": {"loss_type": "grpo", "scale_rewards": "group"},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "dapo": {
        "loss_type": "dapo",
        "epsilon_high": 0.28,
        "mask_truncated_completions": True,
        "refill_factor": 3,
    },
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    },
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "dra_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
}
"""Keys of a recipe by the name of an algorithm. `docs/how-to/recipes.md` says what they omit."""


def no_recipe(harness: str, count: int = 0) -> ConfigError:
    """Returns the error for a harness that has `count` recipe files instead of one."""
    return ConfigError(
        f"the harness {harness} has {count} {RECIPE_FILE} files, but training needs exactly one",
        hint="meta-agent init --harness FOLDER --policy hf:PATH --workspace NEW writes what "
        "training needs beside your agent",
    )


def parse_recipe(text: str, where: str = RECIPE_FILE) -> Recipe:
    """Returns the recipe in a TOML text. Raises ConfigError, naming file `where` and the key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not valid TOML; correct it: {error}") from error
    data = with_preset(data, where)
    for key, value in data.items():
        _check_key(where, key, value)
    recipe = Recipe(**{key: _as_field(value, key) for key, value in data.items()})
    _check_together(where, recipe)
    return recipe


def recipe_of(tree: HarnessTree) -> Recipe:
    """Returns a harness's recipe; all defaults if it has none. Raises ConfigError if it is bad."""
    paths = parse_contract(tree).files_of("recipe", tree)
    recipes = [path for path in paths if path.rpartition("/")[2] == RECIPE_FILE]
    if not recipes:
        return Recipe()
    try:
        text = tree.files[recipes[0]].decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{recipes[0]} is not UTF-8 text; save it as UTF-8: {error}") from error
    return parse_recipe(text, recipes[0])


def with_preset(data: Mapping[str, Any], where: str = RECIPE_FILE) -> dict[str, Any]:
    """Returns a recipe's keys, completed by those of the algorithm that its `preset` names.

    Raises ConfigError, which names the file `where`, for an unknown preset.
    """
    keys = {key: value for key, value in data.items() if key != "preset"}
    name = data.get("preset")
    if name is None:
        return keys
    if not isinstance(name, str) or name not in PRESETS:
        names = ", ".join(PRESETS)
        raise ConfigError(f"{where}: preset is {name!r}, but must be one of {names}")
    return {**PRESETS[name], **keys}


def _check_key(where: str, key: str, value: Any) -> None:
    if key not in _KNOBS:
        close = difflib.get_close_matches(key, _KNOBS, 1, 0.5)
        hint = f"did you mean {close[0]}?" if close else f"known: preset, {', '.join(_KNOBS)}"
        raise ConfigError(f"{where}: unknown key {key!r}; {hint}", hint=hint)
    if expected := _KNOBS[key].metadata["check"](value):
        raise ConfigError(f"{where}: {key} is {value!r}, but must be {expected}")


def _as_field(value: Any, key: str) -> Any:
    whole = isinstance(_KNOBS[key].default, bool | int | str)
    return value if whole or isinstance(value, str | None) else float(value)


def _check_together(where: str, recipe: Recipe) -> None:
    if recipe.warmup_steps >= 1 and recipe.warmup_steps % 1:
        raise ConfigError(
            f"{where}: warmup_steps is {recipe.warmup_steps}; use a whole number or a share below 1"
        )
    if recipe.delta is not None and recipe.delta <= 1 + recipe.epsilon:
        least = 1 + recipe.epsilon
        raise ConfigError(f"{where}: delta is {recipe.delta}; set it above 1 + epsilon, {least:g}")
    _check_level(where, recipe)


def _check_level(where: str, recipe: Recipe) -> None:
    """Refuses pairs for which TRL only warns, although it then trains with another loss."""
    needed = {"luspo": "sequence", "vespo": "token"}.get(recipe.loss_type)
    if needed and recipe.importance_sampling_level != needed:
        raise ConfigError(
            f"{where}: loss_type {recipe.loss_type!r} needs importance_sampling_level "
            f"{needed!r}, not {recipe.importance_sampling_level!r}"
        )
