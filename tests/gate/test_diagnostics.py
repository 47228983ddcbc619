from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.gate_nulls import separation
from meta_agent.core.gate import judge_diagnostics
from meta_agent.core.gate.diagnostics import rank_sum_p, still_discriminates
from meta_agent.core.protocols import VerdictKind

GOOD, BAD = [0.1, 0.15, 0.2, 0.12], [0.6, 0.7, 0.55, 0.8]


def _judge(**changes: Any) -> Any:
    settings: dict[str, Any] = {
        "values_good": GOOD,
        "values_bad": BAD,
        "heldout_good": [0.1, 0.2],
        "heldout_bad": [0.7],
        "threshold": 0.5,
        "higher_is_bad": True,
    }
    merged = {**settings, **changes}
    return judge_diagnostics(merged.pop("values_good"), merged.pop("values_bad"), **merged)


def test_a_metric_that_separates_is_admitted() -> None:
    assert _judge().kind is VerdictKind.PROMOTE


@pytest.mark.parametrize(
    "changes",
    [
        {"values_bad": [0.1, 0.2, 0.15, 0.11]},
        {"higher_is_bad": False},
        {"heldout_bad": [0.05]},
        {"threshold": 0.11},
        {"values_good": [0.1] * 3, "values_bad": [0.1, 0.1, 0.9]},
    ],
)
def test_what_does_not_separate_is_refused(changes: dict[str, Any]) -> None:
    assert _judge(**changes).kind is VerdictKind.REJECT


@pytest.mark.parametrize("few", [{"values_bad": [0.9, 0.8]}, {"heldout_good": []}])
def test_few_versions_decide_nothing(few: dict[str, Any]) -> None:
    assert _judge(**few).kind is VerdictKind.INCONCLUSIVE


def test_the_permutation_p_is_exact_where_it_is_small() -> None:
    assert rank_sum_p([5, 6, 7], [1, 2, 3, 4]) == pytest.approx(1 / 35)
    assert rank_sum_p([1, 1], [1, 1]) == 1.0
    above, below = [i + 3.5 for i in range(12)], [float(i) for i in range(12)]
    assert rank_sum_p(above, below) == pytest.approx(0.0192, abs=0.006), "the normal form"


def test_too_few_good_versions_leave_the_false_alarms_open() -> None:
    """One alarm in eight is within the cap, and may be one in three as far as anybody knows."""
    six = [*GOOD, 0.11, 0.12]
    few = _judge(values_good=six, threshold=0.19, heldout_good=[0.1, 0.12])
    assert few.kind is VerdictKind.INCONCLUSIVE
    many = {"values_good": [*GOOD, *[0.11] * 14], "heldout_good": [0.1, 0.12]}
    assert _judge(threshold=0.19, **many).kind is VerdictKind.PROMOTE


@pytest.mark.parametrize(
    ("good", "bad", "kept"),
    [
        (GOOD, BAD, True),
        ([0.3, 0.5, 0.7, 0.4], [0.4, 0.5, 0.3, 0.7], False),
        (GOOD, BAD[:2], None),
        ([0.1, 0.2, 0.6, 0.12, 0.11, 0.13], BAD, True),  # one alarm in six proves nothing
        ([0.51, 0.52, 0.53, 0.5, 0.1], BAD, False),  # in order, and nearly all alarm
    ],
)
def test_a_diagnostic_stays_until_it_surely_does_less_than_was_asked(
    good: list[float], bad: list[float], kept: bool | None
) -> None:
    told = still_discriminates(good, bad, threshold=0.5, higher_is_bad=True)
    assert told.stays is kept, told.reason
    turned = still_discriminates(
        [-value for value in good], [-value for value in bad], threshold=-0.5, higher_is_bad=False
    )
    assert turned.stays is kept


@pytest.mark.parametrize("draws", [150, pytest.param(600, marks=pytest.mark.nightly)])
def test_a_number_that_means_nothing_is_hardly_ever_admitted(draws: int) -> None:
    """The error that `diagnostics.discriminate` leaves outside the error budget of a run."""
    rng, admitted = np.random.default_rng(0), 0
    for _ in range(draws):
        good, bad, heldout_good, heldout_bad = (rng.normal(size=n) for n in (8, 4, 4, 2))
        if line := separation(good, bad):
            verdict = judge_diagnostics(
                list(good),
                list(bad),
                heldout_good=list(heldout_good),
                heldout_bad=list(heldout_bad),
                threshold=line.threshold,
                higher_is_bad=line.higher_is_bad,
            )
            admitted += verdict.kind is VerdictKind.PROMOTE
    assert admitted / draws <= 0.02
