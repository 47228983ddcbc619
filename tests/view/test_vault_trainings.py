"""A figure of the vault says wherever it is shown which trainings were read: they are not fresh."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from meta_agent.reports import RunState, handover_note, run_sections
from meta_agent.reports._facts import card_facts
from meta_agent.reports.pages.html import render_html
from meta_agent.reports.terminal.paint import painted

from ._screen import printed, state_of

KEPT = "training seed 102, 90 steps"


def note(state: RunState) -> str:
    handed = {"standing": "proven", "words": "w", "policy": "p"}
    sides = {"baseline": state.baseline, "final": state.final}
    return handover_note("r1", handed, {name: asdict(one) for name, one in sides.items() if one})


PLACES: dict[str, Callable[[RunState], str]] = {
    "summary": lambda state: printed(painted(run_sections.summary(state)), 400),
    "page": render_html,
    "the model's card": lambda state: "\n".join(told for _, told in card_facts(state)),
    "the git note": note,
    "json": lambda state: json.dumps(state.to_json()),
}


@pytest.mark.parametrize("place", PLACES)
def test_each_place_names_the_training_behind_a_figure(place: str, tmp_path: Path) -> None:
    told = PLACES[place](state_of(tmp_path / "l.sqlite"))
    if place == "json":
        final = json.loads(told)["final"]
        assert (final["training_seed"], final["training_steps"]) == (102, 90)
    else:
        assert KEPT in told and "training seed 0, 30 steps" in told
