from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from meta_agent.core.gate import Pairs, effect, pair, sign_flip_p
from meta_agent.core.gate.numbers.statistics import mean_squares, tie_of, worst_case

from ._rows import arm


def _pairs(cells: np.ndarray, samples: int = 1) -> Pairs:
    return Pairs(cells, cells.size * samples, 0, samples)


# --- pairing -------------------------------------------------------------------------------------


def test_pairs_are_matched_by_task_sample_and_training_seed() -> None:
    before = arm("a", tasks=4, seeds=(0, 1), change=lambda s, t: {"success": t < 2})
    after = arm("b", tasks=4, seeds=(1, 0), change=lambda s, t: {"success": t < 2 + s})
    found = pair(before, after)
    assert found.pairs == 8
    assert found.cells.tolist() == [[0, 0, 0, 0], [0, 0, 1, 0]]


def test_a_pair_without_an_outcome_is_lost_and_counted() -> None:
    broken = arm("b", tasks=4, change=lambda s, t: {"success": None} if t == 0 else {})
    found = pair(arm("a", tasks=4), broken)
    assert (found.pairs, found.lost, found.dropped_tasks) == (3, 1, 0)
    assert worst_case(found) == pytest.approx(-0.25)


def test_a_task_lost_in_one_seed_leaves_the_crossed_table() -> None:
    def change(seed: int, task: int) -> dict[str, object]:
        return {"success": None} if (seed, task) == (1, 2) else {}

    found = pair(arm("a", tasks=4, seeds=(0, 1)), arm("b", tasks=4, seeds=(0, 1), change=change))
    assert found.cells.shape == (2, 3)
    assert (found.lost, found.dropped_tasks) == (1, 1)


# --- effect --------------------------------------------------------------------------------------


def test_mean_squares_of_a_table_known_by_hand() -> None:
    cells = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 8.0]])
    got = mean_squares(cells)
    assert got == pytest.approx((13.5, 6.5, 1.5))


def test_with_equal_tasks_the_interval_is_students_on_the_seed_means() -> None:
    cells = np.array([[0.10] * 50, [0.20] * 50, [0.12] * 50])
    seen = effect(_pairs(cells), alpha=0.025)
    half = 4.302652729911275 * np.std([0.10, 0.20, 0.12], ddof=1) / np.sqrt(3)
    assert (seen.ci_low, seen.ci_high) == pytest.approx((0.14 - half, 0.14 + half))


def test_no_difference_at_all_proves_nothing() -> None:
    seen = effect(_pairs(np.zeros((2, 40))), alpha=0.05)
    assert (seen.delta, seen.p_improvement) == (0, 0.5)
    assert -0.1 < seen.ci_low < -0.02
    assert seen.ci_high == -seen.ci_low


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 1)])
def test_too_little_data_leaves_everything_possible(shape: tuple[int, int]) -> None:
    seen = effect(_pairs(np.ones(shape)), alpha=0.05)
    assert (seen.ci_low, seen.ci_high) == (-1.0, 1.0)


def test_confidence_agrees_with_the_bounds() -> None:
    rng = np.random.default_rng(5)
    pairs = _pairs(rng.normal(0.05, 0.6, size=(3, 80)))
    confidence = effect(pairs, alpha=0.05).p_improvement
    assert confidence is not None
    assert effect(pairs, alpha=1 - confidence).ci_low == pytest.approx(0, abs=1e-6)


def _one_sided_errors(
    seeds: int, tasks: int, spread: float, *, alpha: float, reps: int
) -> tuple[float, float]:
    """Null: difficulties by task, no mean effect; a random effect of seed, and one of task."""
    rng = np.random.default_rng([seeds, tasks, int(1000 * spread)])
    up = down = 0
    for _ in range(reps):
        base = rng.beta(1.2, 1.2, size=tasks)
        shift = rng.normal(0, spread / np.sqrt(2), size=(2, seeds, 1))
        moved = base + rng.normal(0, 0.15, size=tasks)
        shares = np.clip(np.stack([base + shift[0], moved + shift[1]]), 0, 1)
        drawn = (rng.random(shares.shape) < shares).astype(float)
        seen = effect(_pairs(drawn[1] - drawn[0]), alpha=alpha)
        up, down = up + (seen.ci_low > 0), down + (seen.ci_high < 0)
    return up / reps, down / reps


def nightly(*setting: float) -> Any:
    return pytest.param(*setting, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("seeds", "tasks", "spread", "reps"),
    [
        (2, 64, 0.06, 400),
        nightly(2, 64, 0.06, 1500),
        nightly(2, 512, 0.0, 1500),
        nightly(2, 512, 0.06, 1500),
        nightly(4, 128, 0.02, 1500),
        nightly(1, 200, 0.0, 1500),
    ],
)
def test_type_one_error_holds_with_seed_effects(
    seeds: int, tasks: int, spread: float, reps: int
) -> None:
    """At 5 %, and three standard errors of the repetitions."""
    up, down = _one_sided_errors(seeds, tasks, spread, alpha=0.05, reps=reps)
    assert max(up, down) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / reps)


def test_two_training_seeds_that_agree_on_four_tasks_rule_nothing_out() -> None:
    few, many = (_pairs(np.zeros((2, tasks))) for tasks in (4, 512))
    assert effect(few, alpha=0.05, anytime=True).ci_high > 0.4
    assert effect(few, alpha=0.2, anytime=True).ci_high > 0.2
    high = effect(many, alpha=0.2, anytime=True).ci_high
    assert high < 0.01, "no difference on 512 tasks is no gain"


def test_five_wins_of_five_are_a_gain_and_no_certainty_of_its_size() -> None:
    found = effect(_pairs(np.ones((1, 5))), alpha=0.0333)
    assert 0 < found.ci_low < 0.6
    assert found.ci_high == 1


@pytest.mark.parametrize("tasks", [2, 16, nightly(4), nightly(8), nightly(40)])
def test_few_tasks_that_hardly_differ_rule_nothing_out(tasks: int) -> None:
    """Exact: every table of wins and losses, weighted by its chance.

    Student's interval without the two tasks more contains a true gain of one point in 2 % of
    cases with two tasks, and in a third of them with forty.
    """
    tables = [(won, lost) for won in range(tasks + 1) for lost in range(tasks + 1 - won)]
    highs = {}
    for won, lost in tables:
        row = np.repeat([1.0, -1.0, 0.0], [won, lost, tasks - won - lost])
        highs[won, lost] = effect(_pairs(row[None, :]), alpha=0.0333).ci_high
    for win, loss in [(0.01, 0.0), (0.1, 0.0), (0.3, 0.05), (0.5, 0.4)]:
        held = 0.0
        for won, lost in tables:
            if highs[won, lost] >= win - loss:
                rest = tasks - won - lost
                ways = math.comb(tasks, won) * math.comb(tasks - won, lost)
                held += ways * win**won * loss**lost * (1 - win - loss) ** rest
        assert held > 0.94, (win, loss)


# --- exact test ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "samples", "p"),
    [
        ([1, 1, 1, 0, 0], 1, 1 / 8),
        ([1, 1, 1, -1], 1, 5 / 16),
        ([0, 0], 1, 1.0),
        ([0.5, 0.5, -0.5, 1.0], 2, 4 / 16),
    ],
)
def test_sign_flip_matches_counting_by_hand(row: list[float], samples: int, p: float) -> None:
    brute = _brute_force(row)
    assert sign_flip_p(np.array(row, dtype=float), samples).p == pytest.approx(brute)
    assert brute == pytest.approx(p)


def _brute_force(row: list[float]) -> float:
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(row))).reshape(len(row), -1)
    sums = np.abs(np.array(row)) @ signs
    return float(np.mean(sums >= sum(row) - 1e-9))


def test_sign_flip_of_mixed_sample_counts_is_still_exact() -> None:
    row = np.array([1 / 3, 1 / 2, -1 / 3, 1.0])
    assert sign_flip_p(row, 3).p == pytest.approx(_brute_force(row.tolist()))


# --- ties ----------------------------------------------------------------------------------------


def test_with_broken_ties_the_exact_test_uses_all_of_its_error() -> None:
    """All 256 ways in which eight tasks can differ, and evenly spread numbers that break ties."""
    ways = [np.array([1.0 if way >> at & 1 else -1.0 for at in range(8)]) for way in range(256)]
    tests = [sign_flip_p(row, 1) for row in ways]
    ties = (np.arange(200) + 0.5) / 200
    plain = np.mean([test.p <= 0.05 for test in tests])
    broken = np.mean([[test.randomised_p(tie) <= 0.05 for tie in ties] for test in tests])
    assert plain == pytest.approx(9 / 256)
    assert broken == pytest.approx(0.05, abs=0.002)


def test_what_breaks_a_tie_does_not_hang_on_which_way_tasks_went() -> None:
    row = np.array([[1.0, 0.0, -0.5, 1.0]])
    pairs = Pairs(row, 8, 0, 2, tasks=("a", "b", "c", "d"))
    tie = tie_of("salt", pairs)
    assert 0 <= tie < 1
    assert tie_of("salt", pairs._replace(cells=-row)) == tie
    assert tie_of("other", pairs) != tie != tie_of("salt", pairs._replace(cells=row[:, ::-1]))


def test_numbers_that_break_ties_are_spread_evenly() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (400, 1, 20)).astype(float)
    ties = [tie_of("salt", Pairs(row, 20, 0, 1)) for row in rows]
    assert stats.kstest(ties, "uniform").pvalue > 0.001
