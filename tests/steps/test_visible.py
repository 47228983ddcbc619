"""What a frozen policy's exam can see: the run's own rule, simulated before a cent is spent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meta_agent.composition.visible import _agents, visible
from meta_agent.core.config import RunConfig
from meta_agent.core.gate.simulate import Modelled, power, smallest_effect
from meta_agent.core.loop.plan import Plan, plan_for

CONFIG = RunConfig(policy="openai/m", samples=2)
PLAN = plan_for(CONFIG)
TRAINED = RunConfig(profile="tiny", generations=1)
TRAININGS = replace(plan_for(TRAINED), looks=(4,), confirm=128, steps=2)


def seen(plan: Plan) -> float | None:
    return visible(CONFIG, plan).effect


def test_more_tasks_and_more_samples_see_smaller_gains_and_less_error_larger_ones() -> None:
    small = replace(PLAN, confirm=48, extra=0)
    found = {
        "base": seen(small),
        "tasks": seen(replace(small, confirm=192)),
        "samples": seen(replace(small, looks=(6,))),
        "error": seen(replace(small, alpha=0.005)),
    }
    assert None not in found.values()
    assert found["tasks"] < found["base"] > found["samples"]  # type: ignore[operator]
    assert found["error"] > found["base"]  # type: ignore[operator]


@pytest.mark.parametrize("tasks", [0, 1, 4])
def test_tasks_that_can_prove_nothing_say_so(tasks: int) -> None:
    assert seen(replace(PLAN, confirm=tasks, extra=0)) is None


def test_what_is_said_to_be_seen_is_found_by_the_run_s_rule_four_times_in_five() -> None:
    effect = seen(PLAN)
    assert effect is not None and 0.04 < effect < 0.2
    assert 0.7 < power(PLAN.gate(), _agents(), effect, draws=300, seed=5).share < 0.95


def test_more_seeds_and_more_tasks_make_smaller_gains_visible() -> None:
    def effect(**changes: Any) -> float:
        return visible(TRAINED, replace(TRAININGS, **changes)).effect or 1.0

    assert effect(looks=(8,)) < effect(looks=(4,))
    assert effect(confirm=512) < effect(confirm=64)


def test_two_pairs_of_training_runs_cannot_see_anything() -> None:
    plan = replace(TRAININGS, looks=(2,), generations=9)
    assert visible(TRAINED, plan).effect is None


@pytest.mark.slow
def test_the_worked_out_figure_is_near_the_simulated_one() -> None:
    """For the spread that it assumes."""
    plan = replace(TRAININGS, looks=(8,), confirm=512, generations=3)
    source = Modelled(np.clip(np.linspace(0.3, 1.1, 512), 0.1, 0.98), 0.0316)
    simulated = smallest_effect(plan.gate(), source, draws=80, step=0.01)
    assert visible(TRAINED, plan).effect == pytest.approx(simulated, abs=0.02)
