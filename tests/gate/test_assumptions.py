"""What a promotion takes for granted: that runs do not collapse, that tasks are not one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import Arm, Course, Terms, judge_live, pair, verdict_to_json
from meta_agent.core.gate.numbers._course import collapse_of
from meta_agent.core.gate.numbers.statistics import effect
from meta_agent.core.protocols import Verdict, VerdictKind

from ._rows import arm, row

COURSE = Course(8, 0.05)


def _trained(gains: Sequence[float], *, level: float = 0.5, **options: Any) -> Verdict:
    """One pair of training runs for each gain; the baseline solves `level` of 200 tasks."""

    def side(shift: Sequence[float]) -> Arm:
        def change(seed: int, task: int) -> dict[str, Any]:
            return {"success": (task * 37) % 200 < round(200 * (level + shift[seed]))}

        return arm("x", tasks=200, seeds=range(len(gains)), change=change)

    terms = Terms(**{"min_seeds": 2, "final": False, "course": COURSE, **options})
    return judge_live(side([0.0] * len(gains)), side(gains), terms)


FIVE = (0.05, 0.055, 0.045, 0.05, 0.05)
THIRTY = (0.30, 0.31, 0.29)


def test_a_few_good_seeds_do_not_show_that_none_collapses() -> None:
    """One run in ten losing everything would take such a gain back, and five pairs cannot tell."""
    verdict = _trained(FIVE)
    assert verdict.effect is not None
    assert verdict.effect.ci_low > 0
    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "45%" in verdict.reasons[0] and "+4.5 points" in verdict.reasons[0]


def test_a_gain_that_outlasts_a_collapse_in_ten_is_promoted_and_says_what_was_assumed() -> None:
    verdict = _trained(THIRTY)
    assert verdict.kind is VerdictKind.PROMOTE
    assert "+29.0 points" in verdict.reasons[1] and "63%" in verdict.reasons[1]
    assert verdict_to_json(verdict)["evidence"]["numbers"]["collapse"]["rate"] == 0.1


def test_what_is_assumed_of_collapses_is_declared() -> None:
    assert _trained(FIVE, course=Course(8, 0.05, collapse=0.0)).kind is (VerdictKind.PROMOTE)
    with pytest.raises(ConfigError, match="1"):
        Course(8, 0.05, collapse=1.0)


def test_a_collapse_seen_elsewhere_in_the_run_counts() -> None:
    """Of a ranking's single seed, say: two such losses make one run in two of five likely."""
    assert _trained(THIRTY, elsewhere=(0.3, 0.28)).kind is VerdictKind.PROMOTE
    verdict = _trained(THIRTY, elsewhere=(-0.45, -0.48))
    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "43%" in verdict.reasons[0]


def test_a_low_baseline_has_little_to_lose() -> None:
    assert _trained(FIVE, level=0.05).kind is VerdictKind.PROMOTE


@pytest.mark.parametrize(
    ("rate", "gain", "loss", "claims"),
    [
        (0.1, 0.05, 0.45, 60),
        pytest.param(0.1, 0.05, 0.45, 300, marks=pytest.mark.nightly),
        pytest.param(0.1, 0.3 / 9, 0.3, 300, marks=pytest.mark.nightly),
        pytest.param(0.05, 0.45 / 19, 0.45, 300, marks=pytest.mark.nightly),
    ],
)
def test_candidates_that_sometimes_collapse_keep_the_declared_error(
    rate: float, gain: float, loss: float, claims: int
) -> None:
    """Claims with a true mean of 0, their bounds as the gate takes them after each pair."""
    draw = np.random.default_rng(5)
    wrong = 0
    for _ in range(claims):
        shares = np.where(draw.random(8) < rate, -loss, gain) + draw.normal(0, 0.02, 8)
        tasks = draw.normal(0, 0.3, (8, 40))
        cells = shares[:, None] + tasks - tasks.mean(axis=1, keepdims=True)
        for pairs in range(3, 9):
            made = pair(arm("a", tasks=2), arm("b", tasks=2))._replace(
                cells=cells[:pairs], pairs=pairs * 40, level=0.5
            )
            low = effect(made, alpha=0.05, anytime=True).ci_low
            if collapse_of(made, COURSE.collapse).leaves(low) > 0:
                wrong += 1
                break
    assert wrong / claims <= 0.05


# --- tasks that hang together --------------------------------------------------------------------


def _frozen(won: Sequence[bool], **options: Any) -> Verdict:
    """The baseline solves nothing, the candidate those; Student and the exact test are sure."""
    sides = [
        arm("x", tasks=len(won), change=lambda s, t, on=on: {"success": bool(on and won[t])})
        for on in (False, True)
    ]
    return judge_live(sides[0], sides[1], Terms(**options))


def _repositories(tasks: int, groups: int) -> dict[str, str]:
    return {f"t{task:04d}": f"repo {task % groups}" for task in range(tasks)}


def test_a_gain_in_one_repository_of_eight_is_no_claim_about_repositories() -> None:
    won = [task % 8 == 3 for task in range(160)]
    assert _frozen(won).kind is VerdictKind.PROMOTE
    verdict = _frozen(won, clusters=_repositories(160, 8))
    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_a_gain_in_all_repositories_is_promoted() -> None:
    won = [task % 3 == 0 for task in range(160)]
    assert _frozen(won, clusters=_repositories(160, 8)).kind is VerdictKind.PROMOTE


def test_with_few_repositories_the_claim_is_about_these() -> None:
    won = [task % 3 == 0 for task in range(160)]
    verdict = _frozen(won, clusters=_repositories(160, 3))
    assert verdict.kind is VerdictKind.PROMOTE


def test_tasks_of_equal_content_are_averaged_not_dropped() -> None:
    first = row(0, task_hash="same", success=True)
    second = row(1, task_hash="same", success=False)
    other = row(2, success=True)
    none = tuple(
        row(t, task_hash=h, success=False) for t, h in ((0, "same"), (1, "same"), (2, "x"))
    )
    pairs = pair(Arm("a", {0: none}, 3), Arm("b", {0: (first, second, other)}, 3))
    assert pairs.cells.tolist() == [[0.5, 1.0]]


def test_tasks_of_equal_content_are_one_task() -> None:
    """Each of 25 tasks is there four times: no more sure than each once."""

    def side(solved: Any, copies: int) -> Arm:
        rows = tuple(
            row(task + 100 * copy, task_hash=f"same {task}", success=solved(task))
            for copy in range(copies)
            for task in range(25)
        )
        return Arm("x", {0: rows}, len(rows))

    def bounds(copies: int) -> tuple[float, float]:
        pairs = pair(side(lambda t: t % 4 == 1, copies), side(lambda t: t % 3 > 0, copies))
        seen = effect(pairs, alpha=0.05)
        return seen.ci_low, seen.ci_high

    assert bounds(4) == pytest.approx(bounds(1))
