"""A figure of the vault says wherever it is shown which trainings were read: they are not fresh."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from meta_agent.core.ledger import Ledger
from meta_agent.reports import RunState, handover_note, reduce, run_sections
from meta_agent.reports._facts import card_facts
from meta_agent.reports._format import measured_text, vault_text
from meta_agent.reports._parts import Measured
from meta_agent.reports._sentences import sentences
from meta_agent.reports.pages.html import render_html
from meta_agent.reports.terminal.paint import painted

from .sample import write_sample

KEPT = "training seed 102, 90 steps"


def on_paper(what: RenderableType) -> str:
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(what)
    return console.export_text()


def note(state: RunState) -> str:
    handed = {"standing": "proven", "words": "w", "policy": "p"}
    sides = {"baseline": state.baseline, "final": state.final}
    return handover_note("r1", handed, {name: asdict(one) for name, one in sides.items() if one})


PLACES: dict[str, Callable[[RunState], str]] = {
    "summary": lambda state: on_paper(painted(run_sections.summary(state))),
    "page": render_html,
    "the model's card": lambda state: "\n".join(told for _, told in card_facts(state)),
    "the git note": note,
    "json": lambda state: json.dumps(state.to_json()),
}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    write_sample(tmp_path / "l.sqlite")
    return tmp_path / "l.sqlite"


def state_of(path: Path) -> RunState:
    with Ledger.open(path, owner_lock=False) as opened:
        return reduce(opened)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_names_the_training_behind_a_figure(place: str, ledger: Path) -> None:
    told = PLACES[place](state_of(ledger))
    if place == "json":
        final = json.loads(told)["final"]
        assert (final["training_seed"], final["training_steps"]) == (102, 90)
    else:
        assert KEPT in told and "training seed 0, 30 steps" in told


def test_what_happened_says_that_the_trainings_are_the_runs_own(ledger: Path) -> None:
    words = sentences(state_of(ledger))[0].words
    assert words.endswith("on 512 tasks that nobody had seen, with this run's own trainings.")


def measured(**how: int) -> Measured:
    return Measured.parse({"split": "vault", "n": 9, "clean_success": 0.5, **how})


def test_a_policy_that_nobody_trains_has_new_tasks_and_that_is_all() -> None:
    seen = measured(seed=0, steps=0)
    assert "training" not in measured_text(seen)
    assert vault_text(seen).endswith("nothing was trained, so tasks and attempts alone are new")


def test_a_record_from_before_says_that_they_are_no_fresh_trainings() -> None:
    assert "its weights are the run's own" in vault_text(measured())
    assert "steps" not in measured_text(measured())
    assert measured_text(measured(steps=30)).endswith("30 steps of training")
