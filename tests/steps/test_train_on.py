"""What is left of the budget trains what was found, for as long as it pays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.lab.live import Trained
from meta_agent.core.loop.budget import allowed, spent
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.verbs.collect import collect
from meta_agent.core.loop.verbs.train_on import CHUNK, FIRST_SEED, train_on
from tests.steps._bench import Bench
from tests.steps._ideas import outcomes, prepare

EACH = 2  # steps of a training


def trained_on(bench: Bench, by_steps: Callable[[int], float], reserved: int = 0) -> Trained:
    bench.lab.acts = lambda _tree, trained: by_steps(trained.steps)
    version = first_version(bench.run)
    start = collect(bench.run, version).trained
    return train_on(bench.run, version, start, reserved=reserved)


def test_it_trains_until_the_budget_is_spent_where_that_pays(bench: Bench) -> None:
    prepare(bench, trainings=12)
    last = trained_on(bench, lambda steps: 0.3 + 0.01 * steps)
    assert last.steps == EACH * (1 + 10), "one for the start, and its second reading"
    assert allowed(bench.run) - 656 < spent(bench.run.ledger, "r") <= allowed(bench.run)
    (kept,) = outcomes(bench, "checkpoint")
    assert kept["steps"] == last.steps and len(kept["search_clean_success"]) == 10


def test_it_goes_on_from_weights_that_exist(bench: Bench) -> None:
    prepare(bench, trainings=12)
    trained_on(bench, lambda steps: 0.3 + 0.01 * steps)
    lengths = [step.intent["steps"] for step in bench.run.ledger.steps("r", kind="train")]
    assert lengths == [EACH, *[EACH * CHUNK] * 3, EACH]
    seeds = [step.intent["seed"] for step in bench.run.ledger.steps("r", kind="train")]
    assert seeds == [0, *range(FIRST_SEED, FIRST_SEED + 4)]


def test_it_stops_where_it_no_longer_pays(bench: Bench) -> None:
    prepare(bench, trainings=40)
    last = trained_on(bench, lambda steps: min(0.5, 0.3 + 0.05 * steps))
    assert last.steps == 4, "the earliest of the best"
    assert len(bench.lab.made) == 3, "one chunk that brought something, and one that did not"


def test_of_a_chunk_the_best_checkpoint_is_kept_and_gone_on_from(bench: Bench) -> None:
    prepare(bench, trainings=40)
    shares = {0: 0.2, 2: 0.3, 4: 0.5, 6: 0.4, 8: 0.4}
    assert trained_on(bench, lambda steps: shares.get(steps, 0.3)).steps == 4


def test_what_is_reserved_is_left(bench: Bench) -> None:
    prepare(bench, trainings=12)
    trained_on(bench, lambda steps: 0.3 + 0.01 * steps, reserved=1000)
    assert spent(bench.run.ledger, "r") <= allowed(bench.run) - 1000


def test_where_too_little_is_left_the_weights_stay_and_nothing_is_asked(bench: Bench) -> None:
    prepare(bench, trainings=3)
    last = trained_on(bench, lambda steps: 0.3 + 0.01 * steps, reserved=500)
    assert last.steps == EACH and len(bench.lab.made) == 1
    assert not outcomes(bench, "checkpoint")


def test_a_harness_that_fails_in_longer_training_leaves_the_weights(bench: Bench) -> None:
    prepare(bench, trainings=12)

    def trains(*_: object, **__: object) -> object:
        raise CandidateError("order() gave nothing", reason="bad_value")

    version = first_version(bench.run)
    start = collect(bench.run, version).trained
    bench._patch.setattr(bench.lab, "_train", trains)
    assert train_on(bench.run, version, start) == start


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_a_run_that_is_taken_up_trains_the_same(bench: Bench, share: float) -> None:
    prepare(bench, trainings=12)

    def by_steps(steps: int) -> float:
        return min(share, 0.1 + 0.05 * steps)

    once = trained_on(bench, by_steps)
    made = list(bench.lab.made)
    bench.forget()
    assert trained_on(bench, by_steps) == once and bench.lab.made == made
