"""Predicted against realised."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from forecasts import agreement, agreements, forecasts, predictions_json

from meta_agent.core.ledger import Ledger


def pairs(n: int, seed: int = 0) -> list[tuple[float, float]]:
    draw = random.Random(seed)
    told = [draw.gauss(0, 1) for _ in range(n)]
    return [(x, 0.6 * x + 0.8 * draw.gauss(0, 1)) for x in told]


@pytest.mark.parametrize("n", [4, 9, 40])
def test_coefficients_and_pearsons_interval_are_those_of_scipy(n: int) -> None:
    from scipy.stats import pearsonr, spearmanr

    data = pairs(n)
    found, (xs, ys) = agreement(data), zip(*data, strict=True)
    r = pearsonr(xs, ys)
    low, high = r.confidence_interval(0.95)
    assert found.pearson == pytest.approx((r.statistic, low, high))
    assert found.spearman.value == pytest.approx(spearmanr(xs, ys).statistic)


def test_spearmans_interval_covers_as_it_says() -> None:
    rho = 6 / math.pi * math.asin(0.6 / 2)  # of a bivariate normal with r 0.6
    covered = 0
    for seed in range(400):
        found = agreement(pairs(30, seed)).spearman
        assert found.low is not None and found.high is not None
        covered += found.low < rho < found.high
    assert covered == pytest.approx(380, abs=14)


def test_ties_share_their_rank() -> None:
    from scipy.stats import spearmanr

    data = [(1.0, 2.0), (1.0, 1.0), (2.0, 2.0), (3.0, 5.0), (3.0, 4.0)]
    told, came = zip(*data, strict=True)
    expected = spearmanr(told, came).statistic
    assert agreement(data).spearman.value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ([], None),
        ([(1.0, 2.0)], None),
        ([(1.0, 2.0), (1.0, 3.0)], None),
        ([(1.0, 2.0), (2.0, 3.0)], 1.0),
    ],
)
def test_too_few_pairs_give_no_interval(
    data: list[tuple[float, float]], value: float | None
) -> None:
    found = agreement(data)
    assert found.n == len(data)
    assert found.pearson.value == (None if value is None else pytest.approx(value))
    assert found.pearson.low is None and found.spearman.high is None


def test_what_was_not_measured_is_left_out() -> None:
    found = agreement([(0.1, None), (None, 0.2), (0.1, 0.2), (-0.1, 0.2), (0.0, 0.2)])
    assert (found.n, found.right_direction) == (3, 1)


# --- out of a ledger ------------------------------------------------------------------------------


def record(ledger: Ledger, name: str, **verdict: Any) -> None:
    told = {
        "metric": "clean_success",
        "direction": verdict.pop("direction", "up"),
        "expected_delta": 0.1,
        "factors": verdict.pop("factors", []),
    }
    candidate = {"id": f"r/{name}", "factor": "reward", "hypothesis": told}
    ledger.once(f"r/{name}", "candidate", {}, lambda: candidate)
    if (gain := verdict.pop("alignment", None)) is not None:
        sides = {"before": {"alignment": 0.5}, "after": {"alignment": 0.5 + gain}}
        row = {"candidate": f"r/{name}", "stage": "replay", "numbers": {"reading": "x", **sides}}
        ledger.once(f"r/{name}/replay", "screen", {}, lambda: row)
    scored = {"predicted": 0.1, "realised": verdict.pop("realised", 0.05)}
    made = {"arms": [{}, {}], "calibration": scored, "screened_out": False, "evidence": {}}
    outcome = {"candidate": f"r/{name}", **made, **verdict}
    ledger.once(f"r/{name}/verdict", "verdict", {}, lambda: outcome)


def test_both_forecasters_are_scored_over_all_that_was_measured(tmp_path: Path) -> None:
    arms = {"candidate": {"clean": 60, "n": 100}, "baseline": {"clean": 50, "n": 100}}
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        record(ledger, "g0/c0", alignment=0.2, effect={"delta": 0.12})
        record(ledger, "g0/c1", screened_out=True, evidence={"judge": "screen", "arms": arms})
        record(ledger, "g0/c2", direction="down", realised=-0.3, factors=["reward", "recipe"])
        record(ledger, "g0/c3", arms=None)  # stopped by a check: nothing was compared
        found = forecasts(ledger)
        first, screened, down = found
        assert first.replay == pytest.approx(0.2)
        assert (first.clean, first.split) == (0.12, "confirm")
        assert screened.clean == pytest.approx(0.1)
        assert screened.split == "search"
        assert (down.predicted, down.realised, down.factor) == (-0.1, -0.3, "reward+recipe")
        told = agreements(found)
        assert (told["proposer"].n, told["replay"].n) == (3, 1)
        assert told["proposer"].right_direction == 3
        assert predictions_json(found)["agreement"]["proposer"]["n"] == 3
