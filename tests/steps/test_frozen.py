"""A frozen policy in the loop: looks by samples, and what cannot count.

Whole runs, killed and without torch, are in `tests/acceptance`.
"""

from __future__ import annotations

from typing import Any

import pytest

from meta_agent.composition.headline import cautions
from meta_agent.core.config import RunConfig
from meta_agent.core.gate import task_order
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.verbs.test import test as check
from tests.steps._bench import PLAN, Bench, Tasks, as_frozen

FROZEN = RunConfig(policy="openai/m", samples=2, strategy="score-only")


@pytest.fixture
def frozen(bench: Bench) -> Bench:
    bench.run.config = FROZEN
    bench.run.plan = as_frozen(PLAN, looks=(2,))
    return bench


def edited(bench: Bench, path: str = "swe/agent.py", mark: str = "# better") -> dict[str, str]:
    return {path: f"{bench.text(path)}\n{mark}\n"}


@pytest.mark.parametrize(
    ("factor", "path"),
    [("reward", "swe/reward.py"), ("filter", "swe/filter.py"), ("data", "swe/curriculum.py")],
)
def test_what_acts_through_training_is_stopped_before_anything_is_spent(
    frozen: Bench, factor: str, path: str
) -> None:
    collected = frozen.collected()
    before = len(frozen.run.ledger.steps(kind="eval"))
    plan, frozen.run.plan = frozen.run.plan, PLAN  # as if it had been admitted
    (candidate,) = frozen.candidates(collected, (factor, edited(frozen, path)))
    frozen.run.plan = plan
    tested = check(frozen.run, collected, candidate)
    assert [finding.code for finding in tested.findings] == ["factor.untrained"]
    assert tested.vetoed
    assert len(frozen.run.ledger.steps(kind="eval")) == before


def test_sizes_are_those_of_the_task_set_where_it_is_small() -> None:
    class Few(Tasks):
        def tasks(self, split: Any) -> Any:
            return super().tasks(split)[:9]

    plan = plan_for(FROZEN, Few())  # type: ignore[arg-type]
    assert (plan.search, plan.confirm, plan.vault) == (9, 9, 9)
    assert (plan.looks, plan.steps, plan.trains) == ((2,), 0, False)
    (analysis,) = plan.gate().analyses
    assert (analysis.tasks, analysis.course, analysis.final) == (9, None, True)
    assert plan_for(FROZEN).confirm > plan.confirm
    assert plan_for(RunConfig(), Few()).confirm == 512  # type: ignore[arg-type]


def test_the_order_of_tasks_is_the_runs_and_no_task_comes_twice() -> None:
    keys = [task.key for task in Tasks().tasks("search")]
    assert plan_for(FROZEN.model_copy(update={"seed": 3})).order == "3"
    assert task_order(keys, "3") != task_order(keys, "4") != sorted(keys)
    assert sorted(task_order(keys, "3")) == sorted(keys)


def test_a_set_that_can_prove_nothing_is_said_to() -> None:
    class Four(Tasks):
        def tasks(self, split: Any) -> Any:
            return super().tasks(split)[:4]

    plan = plan_for(FROZEN, Four())  # type: ignore[arg-type]
    assert any("4 confirm tasks" in told for told in cautions(plan, Four()))  # type: ignore[arg-type]
    assert cautions(plan_for(RunConfig()), Four()) == []  # type: ignore[arg-type]
