"""The sequential test of training pairs holds its level whenever one looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from meta_agent.core.gate.numbers.sequential import t_likelihood_ratio, t_reach, t_wealth

ALPHA = 0.05


def binomial_ceiling(level: float, runs: int) -> float:
    """What a share with this expectation exceeds once in ten thousand times."""
    return float(stats.binom.isf(1e-4, runs, level)) / runs


def test_the_t_ratio_agrees_with_the_noncentral_t_densities() -> None:
    values = np.array([0.3, -0.1, 0.5, 0.2, 0.4])
    n, effect = len(values), 0.8
    t = math.sqrt(n) * values.mean() / values.std(ddof=1)
    expected = stats.nct.pdf(t, n - 1, math.sqrt(n) * effect) / stats.t.pdf(t, n - 1)
    assert t_likelihood_ratio(values, effect) == pytest.approx(float(expected), rel=1e-4)


def test_the_t_ratio_does_not_depend_on_the_scale() -> None:
    values = np.array([0.02, 0.05, 0.01])
    assert t_likelihood_ratio(values, 1.0) == pytest.approx(t_likelihood_ratio(100 * values, 1.0))


def test_one_seed_or_none_proves_nothing() -> None:
    assert t_likelihood_ratio([], 2.0) == 1.0
    assert t_wealth([0.4]) < 1 / ALPHA and math.isinf(t_reach(1, ALPHA))


def test_seeds_with_a_clear_effect_need_few_runs() -> None:
    rng, level = np.random.default_rng(7), 0.005
    runs = [rng.normal(0.15, 0.02, 12) for _ in range(30)]
    used = [next(n for n in range(1, 13) if t_wealth(one[:n]) >= 1 / level) for one in runs]
    assert np.median(used) <= 6


def test_seeds_that_are_all_equal_are_no_error() -> None:
    assert t_wealth([0.0, 0.0, 0.0]) < 1


# --- training pairs: how far a mean has to be away ------------------------------------------------


@pytest.mark.parametrize("units", [3, 4, 8])
@pytest.mark.parametrize("level", [0.05, 0.005])
def test_reach_is_where_the_wealth_meets_its_bar(units: int, level: float) -> None:
    reach = t_reach(units, level)
    if math.isinf(reach):
        assert t_wealth([0.1] * units) < 1 / level
        return
    shape = np.linspace(-1, 1, units)
    spread = shape.std(ddof=1) / math.sqrt(units)
    assert t_wealth(shape + reach * spread) == pytest.approx(1 / level, rel=1e-6)
    assert t_wealth(shape + 1.01 * reach * spread) > 1 / level > t_wealth(shape)
    assert reach > stats.t.isf(level, units - 1)


@pytest.mark.parametrize("spread", [0.02, 0.05])
def test_the_level_holds_however_often_pairs_are_looked_at(spread: float) -> None:
    rng, runs = np.random.default_rng(13), 2000
    proven = 0
    for _ in range(runs):
        values = rng.normal(0, spread, 12)
        for n in range(2, 13):
            part = values[:n]
            if part.mean() > t_reach(n, ALPHA) * part.std(ddof=1) / math.sqrt(n):
                proven += 1
                break
    assert proven / runs <= binomial_ceiling(ALPHA, runs)
