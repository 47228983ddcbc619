"""The sequential test of training pairs holds its level whenever one looks."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from meta_agent.core.gate.numbers.sequential import (
    SIGNS,
    half_width,
    log_likelihood_ratio,
    wealth_of,
)

ALPHA = 0.05


def binomial_ceiling(level: float, runs: int) -> float:
    """What a share with this expectation exceeds once in ten thousand times."""
    return float(stats.binom.isf(1e-4, runs, level)) / runs


def test_the_t_ratio_agrees_with_the_noncentral_t_densities() -> None:
    values = np.array([0.3, -0.1, 0.5, 0.2, 0.4])
    n, effect = len(values), 0.8
    t = math.sqrt(n) * values.mean() / values.std(ddof=1)
    expected = stats.nct.pdf(t, n - 1, math.sqrt(n) * effect) / stats.t.pdf(t, n - 1)
    ratio = float(values.sum()) / math.sqrt(float(values @ values))
    found = math.exp(log_likelihood_ratio(n, ratio, effect))
    assert found == pytest.approx(float(expected), rel=1e-4)


def test_one_seed_or_none_proves_nothing() -> None:
    assert wealth_of([]) == 1.0
    assert wealth_of([0.4]) < 1 / ALPHA and math.isinf(half_width(1, 0.1, 0.0, ALPHA))
    assert wealth_of([0.0, 0.0, 0.0]) < 1, "seeds that are all equal are no error"


def test_seeds_with_a_clear_effect_need_few_runs() -> None:
    rng, level = np.random.default_rng(7), 0.005
    runs = [rng.normal(0.15, 0.02, 12) for _ in range(30)]
    used = [next(n for n in range(1, 13) if wealth_of(one[:n]) >= 1 / level) for one in runs]
    assert np.median(used) <= 6


# --- training pairs: how far a mean has to be away ------------------------------------------------


SHAPES = {
    "even": [-1.0, -0.5, 0.0, 0.2, 0.3, 0.5, 0.5, 0.0],
    "one far below": [-2.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3],
    "one far above": [2.1, -0.3, -0.3, -0.3, -0.3, -0.3, -0.3, -0.3],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bound_is_where_the_wealth_meets_its_bar(shape: str) -> None:
    for units, level in product((3, 4, 5, 6, 7, 8), (0.05, 0.005)):
        require_bound(np.array(SHAPES[shape][:units]), units, level)


def require_bound(values: np.ndarray, units: int, level: float) -> None:
    error = float(values.std(ddof=1)) / math.sqrt(units)
    half = half_width(units, error, float(values.mean() - values.min()), level)
    if math.isinf(half):
        assert wealth_of([0.1] * units) < 1 / level
        return
    low = float(values.mean()) - half
    assert wealth_of(values - low + 1e-9) >= (1 / level) * (1 - 1e-6)
    assert wealth_of(values - low - 1e-6) < 1 / level
    assert half > stats.t.isf(level, units - 1) * error or low == pytest.approx(values.min())


def test_pairs_that_are_all_better_prove_a_gain_however_their_sizes_differ() -> None:
    """A t-test sees little in sizes that differ this much. All eight of eight are better."""
    values = [0.02, 0.7, 0.03, 0.65, 0.05, 0.1, 0.6, 0.04]
    by_deviations = (wealth_of(values) - SIGNS * 2**8) / (1 - SIGNS)
    assert by_deviations < 1 / ALPHA < wealth_of(values)
    assert wealth_of([*values[:-1], -0.01]) < 1 / ALPHA


@pytest.mark.parametrize("runs", [400, pytest.param(2000, marks=pytest.mark.nightly)])
def test_the_level_holds_however_often_pairs_are_looked_at(runs: int) -> None:
    rng = np.random.default_rng(13)
    proven = 0
    for _ in range(runs):
        values = rng.normal(0, 0.02, 12)
        for n in range(2, 13):
            part = values[:n]
            error = float(part.std(ddof=1)) / math.sqrt(n)
            worst = float(part.mean() - part.min())
            if part.mean() > half_width(n, error, worst, ALPHA):
                proven += 1
                break
    assert proven / runs <= binomial_ceiling(ALPHA, runs)
