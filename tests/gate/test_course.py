"""A course of pairs: interval and verdict agree, whatever is tied, equal or missing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import Arm, Course, Terms, judge_live, verdict_from_json, verdict_to_json
from meta_agent.core.protocols import Verdict, VerdictKind

from ._rows import arm, drawn_arm

PAIRS = Course(8, 0.1)
TRAINED = Terms(0.05 / 3, futility=0.2, min_seeds=2, final=False, course=PAIRS)


def judged(before: Arm, after: Arm) -> Verdict:
    return judge_live(before, after, TRAINED)


def shifted(share: float, seeds: int, *, spread: float = 0.02, tasks: int = 200) -> Arm:
    rng = np.random.default_rng(3)
    rates = np.clip(share + rng.normal(0, spread, (seeds, 1)) + np.zeros(tasks), 0, 1)
    return drawn_arm("x", rates, np.random.default_rng(round(1000 * share)))


def test_pairs_that_are_all_equal_decide_as_soon_as_three_can() -> None:
    """One or two never promote, however large the gain."""

    def pairs(seeds: int) -> Verdict:
        never = arm("a", seeds=range(seeds), change=lambda *_: {"success": False})
        return judged(never, arm("b", seeds=range(seeds)))

    assert {pairs(seeds).kind for seeds in (1, 2)} == {VerdictKind.INCONCLUSIVE}
    verdict = pairs(3)
    assert verdict.kind is VerdictKind.PROMOTE
    assert verdict.effect is not None
    assert (verdict.effect.delta, verdict.effect.ci_low, verdict.effect.ci_high) == (1, 1, 1)


def test_equal_arms_are_given_up_and_say_what_is_ruled_out() -> None:
    same = shifted(0.6, 3)
    verdict = judged(same, same)
    assert verdict.kind is VerdictKind.REJECT
    assert "+10.0 points" in verdict.reasons[0] and "20%" in verdict.reasons[0]
    assert verdict.evidence["numbers"]["wealth"] == pytest.approx(1, abs=1)


@given(st.integers(2, 8), st.floats(-0.3, 0.5), st.floats(0, 0.08), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_interval_wealth_and_verdict_never_contradict_each_other(
    seeds: int, gain: float, spread: float, draw: int
) -> None:
    rng = np.random.default_rng(draw)
    level = np.clip(0.45 + rng.normal(0, spread, (seeds, 1)) + np.zeros(60), 0, 1)
    before = drawn_arm("a", level, rng)
    after = drawn_arm("b", np.clip(level + gain, 0, 1), rng)
    verdict = judged(before, after)
    numbers, effect = verdict.evidence["numbers"], verdict.effect
    assert effect is not None and effect.ci_low <= effect.delta <= effect.ci_high
    collapse = numbers["collapse"]
    left = (1 - collapse["rate"]) * effect.ci_low - collapse["rate"] * collapse["level"]
    assert (verdict.kind is VerdictKind.PROMOTE) == (left > 0)
    if verdict.kind is VerdictKind.PROMOTE:  # the task level only takes away
        assert numbers["wealth"] >= numbers["bar"] * (1 - 1e-6)
    if verdict.kind is VerdictKind.REJECT:
        assert numbers["wealth_against"] >= numbers["bar_against"] * (1 - 1e-6)
    told = json.loads(json.dumps(verdict_to_json(verdict)))
    assert verdict_to_json(verdict_from_json(told)) == told


def test_a_gain_on_a_few_tasks_is_not_one_on_tasks() -> None:
    """Every seed agrees, but four tasks of eight carry it: which tasks there are is luck, too."""

    def few(gain: int) -> Any:
        return lambda seed, task: {"success": task < gain + seed % 2}

    sides = [arm(n, tasks=8, seeds=range(6), change=few(g)) for n, g in (("a", 2), ("b", 4))]
    verdict = judged(sides[0], sides[1])
    numbers = verdict.evidence["numbers"]
    assert numbers["wealth"] > numbers["bar"]
    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_a_course_that_means_nothing_is_refused() -> None:
    changes: list[dict[str, Any]] = [{"maximum": 1}, {"target": 0.0}, {"target": 1.0}]
    for bad in changes:
        with pytest.raises(ConfigError):
            replace(PAIRS, **bad)
