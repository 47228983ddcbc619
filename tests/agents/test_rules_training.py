"""Rules about filters, curricula and recipes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest

from meta_agent.core.harness import parse_recipe
from meta_agent.core.proposals import Situation
from meta_agent.core.protocols import HarnessTree
from tests.agents._rules import evidence, find, namespace, tree

GROUPS = [
    {"task_key": "a", "rewards": [1.0, 0.0], "outcomes": [True, False]},
    {"task_key": "b", "rewards": [1.0, 1.0], "outcomes": [True, True]},
    {"task_key": "c", "rewards": [0.1, 0.2], "outcomes": [False, False]},
]


def test_informative_groups_are_kept() -> None:
    high_floor = {"swe/filter.py": ("MIN_SPREAD = 1e-6", "MIN_SPREAD = 0.6")}
    probed = evidence(**{"signal__filter.lost": 0.4})
    proposal = find("keep-informative-groups", probed, tree(high_floor))
    assert proposal is not None
    keep = namespace(proposal.edits["swe/filter.py"])["keep"]
    assert keep(GROUPS) == [1.0, 0.0, 1.0]  # type: ignore[operator]


def test_a_filter_that_loses_groups_in_training_is_found_by_its_numbers() -> None:
    numbers = {
        "signal__train.dropped_group_ratio.last": 0.8,
        "signal__train.dead_group_ratio.last": 0.2,
    }
    assert find("keep-informative-groups", evidence(**numbers), tree()) is not None
    assert find("keep-informative-groups", evidence(), tree()) is None


@pytest.mark.parametrize("rule", ["broaden-curriculum", "informative-tasks-first"])
def test_an_edited_curriculum_still_orders_every_task(rule: str) -> None:
    narrow = {"swe/curriculum.py": ("key=place)]", "key=place)][:3]")}
    probed = evidence(**{"signal__dead_group_ratio": 0.5, "signal__curriculum.covered": 0.1})
    proposal = find(rule, probed, tree(narrow))
    assert proposal is not None
    tasks = [{"key": f"t{n}", "view": {}} for n in range(9)]
    history = {"t1": {"tries": 8, "solved": 8}, "t2": {"tries": 8, "solved": 4}}
    order = namespace(proposal.edits["swe/curriculum.py"])["order"]
    keys = order(tasks, history)  # type: ignore[operator]
    assert sorted(keys) == [task["key"] for task in tasks]
    assert keys[-1] in {"t1", "t2"}


STILL = {
    "signal__train.reward_mean.change": 0.004,
    "signal__train.entropy.first": 0.3,
    "signal__train.entropy.change": -0.01,
    "signal__train.steps": 50.0,
}


def test_a_policy_that_did_not_move_gets_a_rate_that_moves_it() -> None:
    slow = recipe_tree({"learning_rate = 5e-5": "learning_rate = 1e-6"})
    proposal = find("raise-learning-rate", evidence(**STILL), slow)
    assert proposal is not None
    assert tomllib.loads(proposal.edits["swe/recipe.toml"])["learning_rate"] == pytest.approx(1e-4)


@pytest.mark.parametrize(
    "change", [{"signal__train.steps": 5000.0}, {"signal__train.entropy.change": -0.1}]
)
def test_a_policy_that_moved_keeps_its_rate(change: dict[str, float]) -> None:
    slow = recipe_tree({"learning_rate = 5e-5": "learning_rate = 1e-6"})
    assert find("raise-learning-rate", evidence(**{**STILL, **change}), slow) is None


RECIPES = {
    "raise-learning-rate": (
        {"signal__train.reward_mean.change": 0.0, "signal__train.grad_norm.last": 0.01},
        {},
        {"learning_rate": 2e-4},
    ),
    "lower-learning-rate": (
        {"signal__train.reward_mean.change": -0.3},
        {},
        {"learning_rate": 1e-5},
    ),
    "explore-more": ({}, {"temperature = 1.0": "temperature = 0.3"}, {"temperature": 1.0}),
    "larger-groups": (
        {"signal__dead_group_ratio": 0.6},
        {},
        {"num_generations": 16, "groups_per_step": 8},
    ),
    "usual-range": ({}, {"beta = 0.0": "beta = 0.5"}, {"beta": 0.0}),
    "constant-schedule": ({}, {'"constant"': '"cosine"'}, {"lr_scheduler_type": "constant"}),
}


def recipe_tree(replacements: Mapping[str, str]) -> HarnessTree:
    harness = tree()
    text = harness.files["swe/recipe.toml"].decode()
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    return HarnessTree("a" * 40, "t" * 40, {**harness.files, "swe/recipe.toml": text.encode()})


@pytest.mark.parametrize("rule", RECIPES)
def test_a_recipe_edit_sets_its_keys_and_nothing_else(rule: str) -> None:
    metrics, replacements, wanted = RECIPES[rule]
    harness = recipe_tree(replacements)
    proposal = find(rule, evidence(**metrics), harness)
    assert proposal is not None
    text = proposal.edits["swe/recipe.toml"]
    before = tomllib.loads(harness.files["swe/recipe.toml"].decode())
    assert tomllib.loads(text) == before | wanted
    assert text.startswith("# Training by TRL's GRPO")
    parse_recipe(text)


DEAD = {
    "signal__train.dead_group_ratio.last": 0.95,
    "signal__train.steps": 30.0,
    "score__clean_success": 0.01,
}


def test_dead_groups_get_easier_tasks_if_the_domain_makes_some() -> None:
    can = Situation(easier="sums:steps=2:size=512")
    proposal = find("generate-easier-tasks", evidence(**DEAD), tree(), can)
    assert proposal is not None
    assert parse_recipe(proposal.edits["swe/recipe.toml"]).generate == can.easier
    assert find("generate-easier-tasks", evidence(**DEAD), tree(), Situation()) is None
    alive = {**DEAD, "score__clean_success": 0.4}
    assert find("generate-easier-tasks", evidence(**alive), tree(), can) is None
