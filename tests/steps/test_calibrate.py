"""Predictions against what came of them, for the screened as well."""

from __future__ import annotations

from meta_agent.steps.calibrate import calibration
from meta_agent.steps.run import Tested as Checked
from meta_agent.steps.test import screen
from tests.steps._bench import Bench


def calibrated(bench: Bench, metric: str) -> object:
    collected = bench.collected()
    reward, data = bench.text("swe/reward.py"), bench.text("swe/curriculum.py")
    candidates = bench.candidates(
        collected,
        ("reward", {"swe/reward.py": reward + "\n# worse\n"}),
        ("data", {"swe/curriculum.py": data + "\n# fine\n"}),
        metric=metric,
    )
    bench.lab.script = lambda tree: 0.4 if b"# worse" in tree.files["swe/reward.py"] else 0.6
    screened = screen(bench.run, collected, [Checked(one, ()) for one in candidates])
    worse = screened.judged[candidates[0].id]
    assert worse.verdict.screened_out and worse.verdict.effect is None
    return calibration(bench.run, collected, candidates[0], worse)


def test_a_screened_candidate_has_its_prediction_scored(bench: Bench) -> None:
    found = calibrated(bench, "clean_success")
    assert isinstance(found, dict)
    assert round(found.pop("realised"), 6) == -0.1
    assert found == {
        "metric": "clean_success",
        "predicted": 0.1,
        "right_direction": False,
        "training_seeds": 1,
    }


def test_other_metrics_are_read_off_both_arms(bench: Bench) -> None:
    found = calibrated(bench, "score.success")
    assert isinstance(found, dict) and round(found["realised"], 6) == -0.1


def test_a_metric_that_nobody_measured_is_not_scored(bench: Bench) -> None:
    assert calibrated(bench, "measured.nobody.knows") is None
