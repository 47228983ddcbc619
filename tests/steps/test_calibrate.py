"""Predictions against what came of them, for what was dropped on the way as well."""

from __future__ import annotations

from typing import Any

import pytest

from meta_agent.core.protocols import HarnessTree
from tests.steps._bench import Bench
from tests.steps._ideas import outcomes, prepare, searched

pytestmark = pytest.mark.slow


def calibrated(bench: Bench, metric: str) -> Any:
    """Of the member that costs the bundle 10 points."""
    reward, data = bench.text("swe/reward.py"), bench.text("swe/curriculum.py")

    def script(tree: HarnessTree) -> float:
        worse = b"WORSE = 1" in tree.files["swe/reward.py"]
        return 0.5 - 0.1 * worse + 0.1 * (b"FINE = 1" in tree.files["swe/curriculum.py"])

    prepare(bench)
    bench.lab.script = script
    bench.candidates(
        bench.collected(),
        ("reward", {"swe/reward.py": reward + "\nWORSE = 1\n"}),
        ("data", {"swe/curriculum.py": data + "\nFINE = 1\n"}),
        metric=metric,
    )
    searched(bench)
    (worse,) = [one for one in outcomes(bench, "verdict") if one["candidate"].endswith("g0/c0")]
    return worse["calibration"]


def test_a_dropped_candidate_has_its_prediction_scored(bench: Bench) -> None:
    found = calibrated(bench, "score.success")
    assert isinstance(found, dict)
    assert round(found.pop("realised"), 6) == -0.1
    assert found == {
        "metric": "score.success",
        "predicted": 0.1,
        "right_direction": False,
        "training_seeds": 1,
    }


def test_a_metric_that_nobody_measured_is_not_scored(bench: Bench) -> None:
    assert calibrated(bench, "measured.nobody.knows") is None
