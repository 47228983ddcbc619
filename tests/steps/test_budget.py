"""The cap on attempts: what counts, how it is shared, and that a decision made once stays made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meta_agent.core.lab.live import Job
from meta_agent.core.loop.budget import (
    CLAIM_SHARE,
    SEARCH_SHARE,
    allowed,
    attempts_a_step,
    attempts_left,
    cells_left,
    claim_pairs,
    one_cell,
    one_pair,
    pays_for,
    pays_for_search,
    plan_attempts,
    spent,
)
from meta_agent.core.loop.plan import MIN_PAIRS
from meta_agent.core.loop.records import Judged
from meta_agent.core.loop.verbs.calibrate import calibration
from meta_agent.core.protocols import HarnessTree, Verdict, VerdictKind
from tests.steps._bench import PLAN, Bench
from tests.steps._ideas import A_STEP

CELL = PLAN.steps * A_STEP + PLAN.search
PAIR = 2 * (PLAN.steps * A_STEP + PLAN.confirm)


def capped(bench: Bench, budget: int | None) -> HarnessTree:
    bench.run.config = bench.run.config.model_copy(update={"budget": budget})
    bench.lab.rollouts_a_step = A_STEP
    return bench.repo.tree(bench.repo.head())


# --- what counts ---------------------------------------------------------------------------------


def test_every_attempt_counts_in_training_and_in_evaluation(bench: Bench) -> None:
    assert spent(bench.run.ledger, "r") == 0
    bench.collected()  # two steps of ten attempts, and 200 search tasks
    assert spent(bench.run.ledger, "r") == 220
    assert spent(bench.run.ledger, "r", ["train"]) == 20


def test_the_vault_and_other_runs_do_not(bench: Bench) -> None:
    collected = bench.collected()
    bench.lab.evaluate(collected.tree, collected.trained, split="vault", limit=50)
    assert spent(bench.run.ledger, "r") == 220
    assert spent(bench.run.ledger, "another") == 0


@pytest.mark.parametrize(
    ("text", "attempts"),
    [
        ("", A_STEP),
        ("groups_per_step = 4\nnum_generations = 2\n", 8),
        ("groups_per_step = 4\nnum_generations = 2\nrefill_factor = 2.5\n", 20),
    ],
)
def test_a_batch_is_read_from_the_recipe(bench: Bench, text: str, attempts: int) -> None:
    tree = bench.repo.tree(bench.repo.head())
    files = {**tree.files, "swe/recipe.toml": text.encode()}
    assert attempts_a_step(replace(tree, files=files)) == attempts


def test_without_a_cap_the_plan_has_one(bench: Bench) -> None:
    tree = capped(bench, None)
    bench.run.plan = plan = replace(PLAN, trainings=25)
    assert one_cell(plan, tree) == CELL and one_pair(plan, tree) == PAIR
    assert allowed(bench.run) == plan_attempts(plan, tree) == 25 * CELL
    capped(bench, 1000)
    assert allowed(bench.run) == 1000


# --- how it is shared ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "most", "pairs"),
    [
        (int(MIN_PAIRS * PAIR / CLAIM_SHARE) + 1, 8, 3),
        (int(5 * PAIR / CLAIM_SHARE) + 1, 8, 5),
        (100 * PAIR, 8, 8),  # never more than the test was declared for
        (100 * PAIR, 2, 2),  # a plan that can prove nothing is not made to
        (int((MIN_PAIRS * PAIR + 400) / (1 - SEARCH_SHARE)) + 1, 8, 3),  # all beside the search
        (int((MIN_PAIRS * PAIR + 400) / (1 - SEARCH_SHARE)) - 1, 8, 0),
    ],
)
def test_how_many_pairs_a_claim_may_take(bench: Bench, cap: int, most: int, pairs: int) -> None:
    plan = replace(PLAN, looks=(most,))
    assert claim_pairs(plan, cap, bench.repo.tree(bench.repo.head())) == pairs


def test_the_search_has_its_share_and_no_more(bench: Bench) -> None:
    tree = capped(bench, 10 * CELL)
    assert cells_left(bench.run, tree, "g0/a") == 4
    assert cells_left(bench.run, tree, "g0/b", CELL) == 3
    bench.collected()
    assert cells_left(bench.run, tree, "g0/c") == 3
    jobs = [Job(tree, seed, PLAN.steps, "search", PLAN.search) for seed in range(5)]
    assert pays_for_search(bench.run, tree, "three", jobs[:4]), "the first is trained already"
    assert not pays_for_search(bench.run, tree, "four", jobs)
    assert pays_for_search(bench.run, tree, "five", jobs, later=True)


def test_a_resumed_run_decides_as_it_did_before(bench: Bench) -> None:
    tree = capped(bench, 10 * CELL)
    jobs = [Job(tree, 1, PLAN.steps, "search", PLAN.search)]
    told = cells_left(bench.run, tree, "g0/a"), attempts_left(bench.run, "x")
    assert pays_for(bench.run, "y", jobs)
    for seed in range(30):
        bench.lab.train(tree, seed=seed, steps=PLAN.steps)
    assert (cells_left(bench.run, tree, "g0/a"), attempts_left(bench.run, "x")) == told
    assert pays_for(bench.run, "y", jobs)
    assert not pays_for(bench.run, "z", jobs) and attempts_left(bench.run, "later") == 0


def test_a_look_is_bought_only_if_its_trainings_fit(bench: Bench) -> None:
    tree = capped(bench, 2 * A_STEP + 10)
    job = Job(tree, 1, 2, "confirm", 10)
    assert pays_for(bench.run, "look1", [job])
    assert not pays_for(bench.run, "look2", [job, replace(job, seed=2)])
    assert pays_for(bench.run, "look3")  # what is recorded costs nothing


def test_a_prediction_is_not_scored_at_the_price_of_a_training(bench: Bench) -> None:
    capped(bench, None)
    collected = bench.collected()
    edit = {"swe/agent.py": bench.text("swe/agent.py") + "\nX = 1\n"}
    (candidate,) = bench.candidates(collected, ("scaffold", edit), metric="score.success")
    before = bench.lab.trainings
    judged = Judged(Verdict(VerdictKind.INVALID, ("a check",)))
    assert calibration(bench.run, collected, candidate, judged) is None
    assert bench.lab.trainings == before
