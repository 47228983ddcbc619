"""The cap on attempts: what counts, how it is shared, and that a resumed run decides the same."""

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
    attempts_of_jobs,
    cells_left,
    claim_pairs,
    one_cell,
    one_pair,
    pays_for,
    plan_attempts,
    search_pays,
    spent,
)
from meta_agent.core.loop.plan import MIN_PAIRS
from meta_agent.core.loop.records import Judged
from meta_agent.core.loop.verbs.calibrate import calibration
from meta_agent.core.protocols import JSON, HarnessTree, Verdict, VerdictKind
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
    assert cells_left(bench.run, tree) == 4
    assert cells_left(bench.run, tree, CELL) == 3
    bench.collected()
    assert cells_left(bench.run, tree) == 3
    jobs = [Job(tree, seed, PLAN.steps, "search", PLAN.search) for seed in range(5)]
    assert attempts_of_jobs(bench.run, jobs[:1]) == 0, "it is trained already"
    four, five = (attempts_of_jobs(bench.run, some, tree) for some in (jobs[:4], jobs))
    assert search_pays(bench.run, four, later=False)
    assert not search_pays(bench.run, five, later=False)
    assert search_pays(bench.run, five)


def test_a_resumed_run_decides_as_it_did_before(bench: Bench) -> None:
    """It comes to its measurements in the same order, whatever is recorded of later ones."""
    tree = capped(bench, 10 * CELL)
    jobs = [Job(tree, seed, PLAN.steps, "search", PLAN.search) for seed in range(20)]

    def decided() -> list[tuple[int, int, bool, int]]:
        decisions = []
        for job in jobs:
            price = attempts_of_jobs(bench.run, [job])
            pays = pays_for(bench.run, "x", price)
            decisions.append((cells_left(bench.run, tree), attempts_left(bench.run), pays, price))
            bench.lab.measure(job)
        return decisions

    before, made = decided(), bench.lab.trainings
    assert before[0] == (4, 10 * CELL, True, CELL) and before[-1] == (0, 0, False, CELL)
    bench.forget()
    assert decided() == before and bench.lab.trainings == made


def test_what_a_recorded_proposal_measured_counts_again(bench: Bench) -> None:
    capped(bench, None)

    def proposes() -> dict[str, JSON]:
        bench.collected()
        return {"admitted": []}

    for _ in range(2):
        assert bench.lab.budget.spent == 0
        outcome = bench.run.once_with_trials("g0/propose", "proposal", {}, proposes)
        assert len(outcome["measured"]) == 2
        assert bench.lab.budget.spent == PLAN.steps * A_STEP + PLAN.search
        bench.forget()


def test_a_look_is_bought_only_if_its_trainings_fit(bench: Bench) -> None:
    tree = capped(bench, 2 * A_STEP + 10)
    jobs = [Job(tree, seed, 2, "confirm", 10) for seed in (1, 2)]
    assert pays_for(bench.run, "look1", attempts_of_jobs(bench.run, jobs[:1]))
    assert not pays_for(bench.run, "look2", attempts_of_jobs(bench.run, jobs))
    assert pays_for(bench.run, "look3", 0)  # what is recorded costs nothing


def test_a_prediction_is_not_scored_at_the_price_of_a_training(bench: Bench) -> None:
    capped(bench, None)
    collected = bench.collected()
    edit = {"swe/agent.py": bench.text("swe/agent.py") + "\nX = 1\n"}
    (candidate,) = bench.candidates(collected, ("scaffold", edit), metric="score.success")
    before = bench.lab.trainings
    judged = Judged(Verdict(VerdictKind.INVALID, ("a check",)))
    assert calibration(bench.run, collected, candidate, judged) is None
    assert bench.lab.trainings == before
