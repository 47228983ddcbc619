"""The three sentences that every screen begins with, for each way in which a run may stand."""

from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.reports import RunState, handover_words, reduce, run_sections
from meta_agent.reports._parts import CellView, RefusedView
from meta_agent.reports._sentences import sentences
from meta_agent.reports.terminal.paint import painted

from ._sample import HOSTILE, write_sample
from ._screen import missing, printed, state_of


def told(state: RunState) -> dict[str, str]:
    return {one.about: f"{one.words} [{one.command}]" for one in sentences(state)}


def test_a_finished_run_says_what_came_why_and_which_command_uses_it(tmp_path: Path) -> None:
    said = told(state_of(tmp_path / "l.sqlite"))
    assert list(said) == ["what happened", "why", "why not", "next"]
    happened = ("47.6 %", "61.3 %", "30 steps", "90 steps", "512")
    assert missing(said["what happened"], *happened) == []
    assert missing(said["why"], "g0/c0", "the reward counts tests", "+10.3") == []
    assert missing(said["why not"], "g0/c1", "+12.1", "INVALID", "answer leakage") == []
    assert f"[meta-agent why g0/c1 --workspace {tmp_path}]" in said["why not"]
    assert "meta-agent adopt --into FOLDER" in said["next"]


def test_after_a_revert_every_screen_says_that_main_is_unmeasured(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    write_sample(path)
    with Ledger.open(path) as ledger:
        record = {"candidate": "r1/g0/c0", "reverted": "c", "commit": "d"}
        ledger.once("revert/c", "revert", {"commit": "c"}, lambda: record)
        state = reduce(ledger)
    assert state.taken_back == "g0/c0" and state.carriers == []
    said = told(state)
    assert missing(said["what happened"], "g0/c0", "unmeasured") == []
    assert "meta-agent evolve --domain swe --seed 1" in said["next"]
    page = run_sections.page(state)
    assert missing(page.headline, "g0/c0", "unmeasured") == []
    for sections in (run_sections.summary(state), run_sections.status(state), page.sections):
        assert missing(printed(painted(sections)), "g0/c0", "unmeasured") == []
    state.handover = {"standing": "proven", "words": "+10.3 points"}
    assert missing(handover_words(state), "g0/c0", "unmeasured") == []


@pytest.mark.parametrize("cell", [True, False])
def test_a_refused_candidate_whose_cell_was_trained_is_never_called_untrained(
    cell: bool, tmp_path: Path
) -> None:
    state = state_of(tmp_path / "l.sqlite")
    for candidate in state.candidates.values():
        candidate.verdict = {**(candidate.verdict or {}), "effect": None, "evidence": None}
    barred = {"name": "v0+1", "members": ["r1/g0/c0", "r1/g0/c1"], "clean_success": 0.547}
    state.cells = [CellView.parse(barred)] if cell else []
    why_not = told(state)["why not"]
    assert missing(why_not, "g0/c1", "INVALID", "answer leakage") == []
    assert ("54.7 %" in why_not and "v0+1" in why_not) is cell is ("never trained" not in why_not)


@pytest.mark.parametrize("standing", ["start", "unproven"])
def test_where_nothing_was_proven_the_next_command_is_named(standing: str) -> None:
    handover = {"standing": standing, "words": "+10.9 points; 7 pairs may prove it: --budget 9"}
    state = RunState("r", exit_reason="done", handover=handover)
    assert "meta-agent" in told(state)["next"] or "--budget 9" in told(state)["next"]


def test_a_run_that_tried_nothing_says_so_first_and_why() -> None:
    handover = {"standing": "start", "words": "no edit was accepted"}
    refused = RefusedView(0, "the analysis", "no_tool_calls", "it made no tool call")
    state = RunState("r", exit_reason="done", handover=handover, refused=[refused])
    said = told(state)
    assert said["what happened"].startswith("No idea was tried")
    assert missing(said["what happened"], "it made no tool call") == []
    assert "--meta-model" in said["next"]


@pytest.mark.parametrize(
    ("standing", "command"), [("trained", "adopt"), ("trained in vain", "report")]
)
def test_weights_are_offered_only_if_their_training_gained(standing: str, command: str) -> None:
    handover = {"standing": standing, "words": "trained for 3 steps"}
    said = told(RunState("r", exit_reason="done", handover=handover))
    assert f"meta-agent {command}" in said["next"]


@pytest.mark.parametrize(
    ("run", "command"),
    [("swe-train-0123", "train"), ("swe-0123", "evolve"), ("train-0123", "evolve")],
)
def test_an_interrupted_run_names_its_own_command(run: str, command: str) -> None:
    domain = run.partition("-")[0]
    state = RunState(run, config={"domain": domain}, exit_reason="interrupted")
    assert f"meta-agent {command}" in told(state)["next"]
    assert f"same {command} command" in run_sections.state_word(state)


@pytest.mark.parametrize("reason", [None, "interrupted", "infrastructure", "budget", HOSTILE])
def test_a_run_that_has_not_ended_names_the_command_that_goes_on(reason: str | None) -> None:
    said = told(RunState("r", exit_reason=reason))
    assert "meta-agent evolve" in said["next"] and "0 ideas" in said["so far"]
    assert not any("\x1b" in text or "\u202e" in text for text in said.values())


def test_what_goes_on_is_the_command_that_it_was_begun_with() -> None:
    origin = dict.fromkeys(("profile", "workspace", "tasks", "models"), "command line")
    config = {"profile": "tiny", "tasks": "a b", "models": {"x": "y"}, "seed": 3}
    config["origin"] = {**origin, "seed": "default"}
    said = told(RunState("r", config=config, workspace="/my w"))
    expected = "[meta-agent evolve --profile tiny --tasks 'a b' --models ... --workspace '/my w']"
    assert said["next"].endswith(expected)


def test_a_running_one_needs_nothing_and_a_parked_one_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    write_sample(path, finished=False)
    with Ledger.open(path) as ledger:
        running = told(reduce(ledger))
    assert "collect" in running["what happens"] and "log --follow" in running["next"]
    parked = told(state_of(tmp_path / "p.sqlite", waits_for="g1/c2"))
    assert "meta-agent approve g1/c2" in parked["next"]
