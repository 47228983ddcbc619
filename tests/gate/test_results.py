"""Summaries of runs agree with scipy, with hand computation, and cover what they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.numbers import results


def test_the_interquartile_mean_is_of_runs_not_of_attempts() -> None:
    """A run is scored over its tasks first: of single attempts it would be (0.75 - 0.25) / 0.5."""
    assert results.interval([[1, 1, 1, 0]] * 4).value == pytest.approx(0.75)
    scores = np.random.default_rng(1).random(13)
    assert results.interval(scores).value == pytest.approx(np.sort(scores)[3:10].mean())


def test_probability_of_improvement_is_mann_whitneys_share() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 9, 11) / 8, rng.integers(0, 9, 7) / 8
    u = stats.mannwhitneyu(a, b).statistic
    assert results.improvement(a, b).value == pytest.approx(u / 77)
    assert results.improvement(b, a).value == pytest.approx(1 - u / 77)


def test_equal_shares_tie_whatever_rounding_did() -> None:
    a, b = [[0.1, 0.2, 0.3]], [[0.3, 0.1, 0.2]]
    assert results.improvement(a, b).value == 0.5


def nightly(*setting: object) -> Any:
    return pytest.param(*setting, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("runs", "least", "statistic", "draws"),
    [
        (5, 0.85, "iqm", 80),
        *(
            nightly(runs, least, statistic, 400)
            for runs, least in ((5, 0.88), (10, 0.91), (20, 0.91))
            for statistic in ("mean", "iqm")
        ),
    ],
)
def test_intervals_cover_what_they_are_about(
    runs: int, least: float, statistic: str, draws: int
) -> None:
    """Simulated results. 2.7 standard errors below 95 % are 92 % for 400; 5 runs: 88 %."""
    rng = np.random.default_rng(runs)
    drawn = [rng.normal(0.7, 0.035, runs) for _ in range(draws)]
    found = [results.interval(scores, statistic, draws=1000) for scores in drawn]
    covered = np.mean([one.low <= 0.7 <= one.high for one in found])
    assert covered >= least


@pytest.mark.parametrize("draws", [60, nightly(300)])
def test_differences_and_improvements_cover_a_planted_gain(draws: int) -> None:
    rng = np.random.default_rng(7)
    truth = float(stats.norm.cdf(0.03 / 0.035 / 2**0.5))
    hits = [0, 0]
    for _ in range(draws):
        a, b = rng.normal(0.73, 0.035, 8), rng.normal(0.70, 0.035, 8)
        gain = results.difference(a, b, draws=800)
        chance = results.improvement(a, b, draws=800)
        hits[0] += gain.low <= 0.03 <= gain.high
        hits[1] += chance.low <= truth <= chance.high
    assert min(hits) / draws >= (0.90 if draws == 300 else 0.85)


def test_tasks_that_both_sides_share_cancel_in_a_difference() -> None:
    rng = np.random.default_rng(2)
    hard = rng.random(40) < 0.5
    a = b = np.tile(hard, (4, 1)).astype(float)
    seen = results.difference(a, b)
    assert (seen.value, seen.low, seen.high) == (0.0, 0.0, 0.0)
    one = results.interval(a)
    assert one.high - one.low > 0.2  # forty tasks say little about tasks like these


def test_the_interval_of_a_single_run_speaks_of_tasks_and_says_so() -> None:
    row = [[1.0] * 60 + [0.0] * 40]
    seen = results.interval(row, "mean")
    assert seen.runs == 1
    assert seen.low == pytest.approx(0.5, abs=0.03) and seen.high == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("scores", [[0.5], [], [[[0.1]]], [0.1, float("nan")]])
def test_what_has_no_interval_is_refused(scores: object) -> None:
    with pytest.raises(ConfigError):
        results.interval(scores)  # type: ignore[arg-type]


def test_sides_over_different_tasks_are_refused() -> None:
    with pytest.raises(ConfigError):
        results.difference([[0, 1], [1, 1]], [[0, 1, 1], [1, 1, 0]])
