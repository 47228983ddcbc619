"""What a run says of itself: figures over training runs, and gains that it cannot see."""

from __future__ import annotations

from typing import Any

import pytest

from meta_agent.reports import Measured, RunState
from meta_agent.reports._facts import claim_facts
from meta_agent.reports._parts import AnalysisView

SEEN = {"effect": 0.1, "words": "this budget cannot see gains below 10.0 points"}


def figure(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high, "runs": 3}


def arm(middle: float, runs: int = 3) -> dict[str, Any]:
    one = figure(middle, middle - 0.05, middle + 0.05)
    return {"runs": [middle] * runs, "tasks": 512, "mean": one, "iqm": one}


def measured(share: float) -> Measured:
    return Measured("vault", 512, share, share, (share, share))


def facts(**fields: Any) -> dict[str, str]:
    return dict(claim_facts(RunState("r", **fields)))


def test_a_run_that_recorded_neither_says_neither() -> None:
    assert facts() == {}


def test_both_versions_are_told_over_their_training_runs() -> None:
    told = {
        "seeds": [0, 1, 2],
        "before": arm(0.5),
        "after": arm(0.7),
        "difference": figure(0.2, 0.12, 0.28),
        "improvement": figure(1.0, 0.9, 1.0),
    }
    said = facts(results=told)["over runs"]
    assert "before mean 50.0 % [45.0, 55.0], IQM 50.0 %" in said
    assert "mean difference +20.0 [+12.0, +28.0]" in said
    assert "a run after beats one before with probability 1.00 [0.90, 1.00]" in said
    assert said.endswith("3 training seeds, 95 % intervals")


def test_training_seeds_of_the_claim_are_said_not_to_be_fresh() -> None:
    told = {"seeds": [1, 2, 3], "before": arm(0.5), "after": arm(0.7)}
    said = facts(results=told)["over runs"]
    assert "3 training seeds, those of the claim, so only the tasks are new" in said


def test_what_joined_a_lead_has_what_is_likelier_beside_what_it_was_chosen_by() -> None:
    told = {"members": ["r/g0/c0"], "effect": [0.2, 0.1, 0.3], "likelier": 0.08}
    said = facts(lead=told)["lead"]
    assert "+20.0 points [+10.0, +30.0] against main on the tasks they were chosen on" in said
    assert "(likelier +8.0)" in said


def test_one_policy_has_no_interquartile_mean_and_no_chance_of_improvement() -> None:
    told = {
        "seeds": [0],
        "before": arm(0.5, 1),
        "after": arm(0.7, 1),
        "difference": figure(0.2, 0.12, 0.28),
        "improvement": figure(1.0, 0.9, 1.0),
    }
    said = facts(results=told)["over runs"]
    assert "IQM" not in said and "probability" not in said
    assert "one policy, over tasks alone" in said


@pytest.mark.parametrize(("after", "claimed"), [(0.53, False), (0.47, False), (0.65, True)])
def test_a_change_below_what_the_budget_sees_is_no_claim(after: float, claimed: bool) -> None:
    said = facts(visible=SEEN, baseline=measured(0.5), final=measured(after))
    assert said["detectable"] == SEEN["words"]
    assert ("no claim" in said) is not claimed


def test_a_budget_that_sees_nothing_says_only_that() -> None:
    told = {"effect": None, "words": "this budget cannot see any gain"}
    assert list(facts(visible=told, baseline=measured(0.5), final=measured(0.6))) == ["detectable"]


def test_a_search_that_ended_for_want_of_ideas_says_so() -> None:
    said = AnalysisView.parse({"generation": 1, "nothing": "all are clean", "noted": ""})
    assert facts(analyses=[said])["search"] == "generation 1 found nothing to try: all are clean"
    noted = AnalysisView.parse({"generation": 2, "noted": "the filter drops hard tasks"})
    assert "search" not in facts(analyses=[said, noted])
