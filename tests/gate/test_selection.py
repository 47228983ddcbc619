"""The estimate of a promotion is one of those that passed a bar, and says so."""

from __future__ import annotations

import numpy as np
import pytest

from meta_agent.core.gate import Course, Terms, judge_live
from meta_agent.core.gate.numbers.statistics import given_promotion
from meta_agent.core.protocols import VerdictKind

from ._rows import Arm, drawn_arm

ONE_LOOK = 1.645


@pytest.mark.parametrize("truth", [1.0, 2.0])
def test_over_many_promotions_it_is_nearer_to_the_truth_than_the_raw_one(truth: float) -> None:
    """In standard errors; a bar at 5 %. The raw one is 1.25 too high where the truth is 1."""
    drawn = truth + np.random.default_rng(0).normal(size=4000)
    passed = drawn[drawn > ONE_LOOK][:800]
    found = np.mean([given_promotion(x, 1.0, ONE_LOOK) for x in passed])
    assert abs(found - truth) < 0.5
    assert truth > 2.5 or abs(found - truth) < passed.mean() - truth


def test_far_above_the_bar_nothing_is_taken_off_and_at_the_bar_all() -> None:
    assert given_promotion(6.0, 1.0, ONE_LOOK) == pytest.approx(6.0, abs=0.01)
    assert given_promotion(ONE_LOOK + 1e-9, 1.0, ONE_LOOK) == 0.0
    assert given_promotion(0.3, 0.0, 0.1) == 0.3
    steps = [given_promotion(x / 10, 1.0, ONE_LOOK) for x in range(17, 60)]
    assert steps == sorted(steps)


def two(gain: float, *, seeds: int = 1, tasks: int = 200) -> tuple[Arm, Arm]:
    rng = np.random.default_rng(3)
    shares = np.full((seeds, tasks), 0.4)
    return drawn_arm("a", shares, rng), drawn_arm("b", shares + gain, rng)


def test_a_promotion_has_it_beside_the_raw_estimate_and_nothing_else_has() -> None:
    verdict = judge_live(*two(0.25), Terms())
    assert verdict.kind is VerdictKind.PROMOTE and verdict.effect is not None
    assert verdict.effect.shrunk is not None
    assert 0 < verdict.effect.shrunk <= verdict.effect.delta
    doubted = judge_live(*two(0.0), Terms()).effect
    assert doubted is not None and doubted.shrunk is None


def test_a_sequential_test_has_no_correction_that_assumes_one_look() -> None:
    terms = Terms(min_seeds=2, course=Course(8, 0.1, 0.1))
    verdict = judge_live(*two(0.3, seeds=4), terms)
    assert verdict.kind is VerdictKind.PROMOTE
    assert verdict.effect is not None and verdict.effect.shrunk is None
