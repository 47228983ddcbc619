"""Stored A/A runs: spreads and rates that were planted are found again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from _stored_runs import StoredRuns, StoredSamples, false_promotions, model, population, spread
from scipy.special import expit, logit

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import Course, Terms
from meta_agent.core.gate.simulate import (
    Analysis,
    Exam,
    Gate,
    Matrix,
    Modelled,
    Population,
    smallest_effect,
)

STORED = Path(__file__).parents[2] / "benchmarks" / "data" / "aa_nano_swe.json"
RATES = np.linspace(0.2, 0.95, 200)


def runs(count: int, sd: float, seed: int = 0) -> Matrix:
    """Training runs whose mean is spread by `sd`, attempts aside."""
    rng = np.random.default_rng(seed)
    step = sd / np.mean(RATES * (1 - RATES))
    shares = expit(logit(RATES) + rng.normal(0, step, (count, 1)))
    return (rng.random(shares.shape) < shares).astype(float)


def trained(most: int = 6, *, target: float = 0.1, alpha: float = 0.05) -> Gate:
    course = Course(most, target)
    analyses = tuple(Analysis(n, 200, n == most, course) for n in range(2, most + 1))
    return Gate(analyses, Terms(alpha, futility=0.2))


def at_once(seeds: int = 4, *, alpha: float = 0.05) -> Gate:
    """One look at a declared moment, which a t-test decides."""
    return Gate((Analysis(seeds, 200),), Terms(alpha))


def frozen(tasks: int = 128, *, samples: int = 2) -> Gate:
    return Exam((Analysis(samples, tasks),), Terms(0.05))


@pytest.mark.parametrize("sd", [0.0, 0.02, 0.05])
def test_a_planted_spread_between_training_seeds_is_found_again(sd: float) -> None:
    found = [spread(runs(8, sd, seed)) for seed in range(60)]
    squares = float(np.mean([one.seed**2 for one in found]))
    assert squares**0.5 == pytest.approx(sd, abs=0.016)


def test_the_interval_of_a_spread_covers_it() -> None:
    """95 % of 200 simulated sets of runs: 2.6 standard errors below is 91 %."""
    truth = spread(runs(2000, 0.03, 99)).total
    found = [spread(runs(6, 0.03, seed)) for seed in range(200)]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.91


def test_one_run_has_no_spread() -> None:
    with pytest.raises(ConfigError):
        spread(runs(1, 0.0))


def test_a_t_tests_false_promotions_are_as_many_as_declared() -> None:
    """One candidate, one look, alpha 20 %: 400 draws, three standard errors are 6 points."""
    seen = false_promotions(at_once(alpha=0.2), Modelled(RATES, 0.03), candidates=1, runs=400)
    assert seen.share == pytest.approx(0.2, abs=0.06)
    assert seen.low < seen.share < seen.high


@pytest.mark.parametrize("gate", [trained(), frozen()], ids=["trained", "frozen"])
def test_tests_that_may_stop_at_any_moment_keep_their_level(gate: Gate) -> None:
    sd = 0.0 if isinstance(gate, Exam) else 0.03
    assert false_promotions(gate, Modelled(RATES, sd), candidates=1, runs=150).low <= 0.05


def test_a_rule_that_forgets_the_seed_is_caught() -> None:
    """The simulation can fail: one training run judged by its tasks alone."""
    gate = Exam(at_once(1).analyses, Terms(0.05))
    luck = false_promotions(gate, StoredRuns(runs(32, 0.05)), candidates=1, runs=300)
    assert luck.low > 0.1


def test_every_arm_has_runs_of_its_own_where_there_are_enough() -> None:
    clean = np.arange(12.0)[:, None] * np.ones((1, 5))
    before, after = StoredRuns(clean).null_pair(6, 5, np.random.default_rng(0))
    assert sorted({*before[:, 0], *after[:, 0]}) == list(range(12))
    assert isinstance(population(runs(12, 0.0), trained(6)), StoredRuns)
    assert isinstance(population(runs(11, 0.0), trained(6)), Modelled)


def test_attempts_of_a_frozen_policy_stay_with_their_task() -> None:
    clean = np.tile([0.0, 1.0], (8, 10))
    before, after = StoredSamples(clean).null_pair(4, 30, np.random.default_rng(0))
    assert np.array_equal(before, after)
    assert isinstance(population(clean, frozen()), StoredSamples)


def test_a_model_of_few_runs_is_spread_like_the_many_they_came_from() -> None:
    many = runs(400, 0.03, 1)
    found = [model(many[at : at + 4], trained()) for at in range(0, 400, 4)]
    assert np.mean([one.seed_sd**2 for one in found]) ** 0.5 == pytest.approx(0.03, abs=0.01)
    assert np.mean([one.rates.std() for one in found]) == pytest.approx(RATES.std(), rel=0.15)


@pytest.mark.slow
def test_stored_training_runs_and_their_model_agree_on_what_is_visible() -> None:
    lines = json.loads(STORED.read_text())["clean"].values()
    clean = np.array([[c == "1" for c in line] for line in lines], dtype=float)
    gate = trained(8, alpha=0.05 / 3)
    kinds: list[Population] = [StoredRuns(clean), model(clean, gate)]
    least = [smallest_effect(gate, kind, draws=40, step=0.01) or 1.0 for kind in kinds]
    assert abs(least[0] - least[1]) <= 0.03
