"""What a run says of itself: figures over training runs, and gains that it cannot see."""

from __future__ import annotations

from typing import Any

import pytest

from meta_agent.reports import Measured, RunState
from meta_agent.reports._facts import claim_facts, figures
from meta_agent.reports._parts import AnalysisView

from ._screen import missing

SEEN = {"effect": 0.1, "words": "below 10.0"}


def figure(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high, "runs": 3}


def arm(middle: float, runs: int = 3) -> dict[str, Any]:
    one = figure(middle, middle - 0.05, middle + 0.05)
    return {"runs": [middle] * runs, "tasks": 512, "mean": one, "iqm": one}


def measured(share: float) -> Measured:
    return Measured("vault", 512, share, share, (share, share))


def facts(**fields: Any) -> dict[str, str]:
    return dict(claim_facts(RunState("r", **fields)))


def shown(**fields: Any) -> dict[str, str]:
    state = RunState("r", config={"policy": fields.pop("policy", "nano")}, **fields)
    return {name: f"{value} | {words}" for name, value, words in figures(state)}


def test_every_figure_says_what_it_compares() -> None:
    sides = {"seeds": [0, 1, 2], "before": arm(0.5), "after": arm(0.7)}
    gap = {"difference": figure(0.2, 0.12, 0.28), "improvement": figure(1.0, 0.9, 1.0)}
    over_seeds = shown(results={**sides, **gap})["vault, seeds"]
    numbers = ("50.0 % [45.0, 55.0]", "70.0 %", "+20.0 points [+12.0, +28.0]", "1.00 [0.90, 1.00]")
    assert missing(over_seeds, *numbers, "3 training seeds") == []
    one = {"seeds": [0], "before": arm(0.5, 1), "after": arm(0.7, 1), **gap}
    assert missing(shown(results=one)["vault, seeds"], "70.0 %", "1.00") == ["1.00"]
    assert missing(shown(final=measured(0.7))["vault"], "not measured", "70.0 %", "512") == []
    assert shown() == {}


@pytest.mark.parametrize(("policy", "has_weights"), [("nano", True), ("openai/m", False)])
def test_weights_are_spoken_of_only_where_they_are_trained(policy: str, has_weights: bool) -> None:
    effect = {"delta": 0.2, "ci_low": 0.1, "ci_high": 0.3, "training_seeds": 1}
    claims = {"version": {"kind": "PROMOTE", "effect": effect}}
    claim = shown(claims=claims, policy=policy)["claim"]
    assert ("weights" in claim) is has_weights and "+20.0 [+10.0, +30.0]" in claim


def test_a_lead_has_what_is_likelier_beside_what_it_was_chosen_by() -> None:
    lead = {"members": ["r/g0/c0"], "effect": [0.2, 0.1, 0.3], "likelier": 0.08}
    assert missing(facts(lead=lead)["lead"], "+20.0", "[+10.0, +30.0]", "+8.0") == []


@pytest.mark.parametrize(("after", "claimed"), [(0.53, False), (0.47, False), (0.65, True)])
def test_a_change_below_what_the_budget_sees_is_no_claim(after: float, claimed: bool) -> None:
    found = facts(visible=SEEN, baseline=measured(0.5), final=measured(after))
    assert found["detectable"] == SEEN["words"]
    assert ("no claim" in found) is not claimed
    nothing = {"effect": None, "words": "none"}
    blind = facts(visible=nothing, baseline=measured(0.5), final=measured(after))
    assert list(blind) == ["detectable"]


def test_a_search_that_ended_for_want_of_ideas_says_so() -> None:
    ended = AnalysisView.parse({"generation": 1, "nothing": "all are clean", "noted": ""})
    assert "all are clean" in facts(analyses=[ended])["search"]
    noted = AnalysisView.parse({"generation": 2, "noted": "the filter drops hard tasks"})
    assert "search" not in facts(analyses=[ended, noted])
