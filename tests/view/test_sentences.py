"""The three sentences that every screen begins with, for each way in which a run may stand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.reports import RunState, reduce
from meta_agent.reports._parts import CellView
from meta_agent.reports._sentences import sentences

from .sample import HOSTILE, write_sample


def told(state: RunState) -> dict[str, str]:
    return {one.about: f"{one.words} [{one.command}]" for one in sentences(state)}


def state_of(path: Path, **how: Any) -> RunState:
    write_sample(path, **how)
    with Ledger.open(path, owner_lock=False) as ledger:
        return reduce(ledger)


def test_a_finished_run_says_what_came_why_and_which_command_uses_it(tmp_path: Path) -> None:
    said = told(state_of(tmp_path / "l.sqlite"))
    assert list(said) == ["what happened", "why", "why not", "next"]
    assert (
        "proven: clean success from 47.6 % (30 steps) to 61.3 % (90 steps) on 512"
        in said["what happened"]
    )
    assert "g0/c0, the reward counts tests (reward, +10.3 points)." in said["why"]
    assert "g0/c1 at +12.1 [+6.0, +18.0] points is INVALID: answer leakage" in said["why not"]
    assert f"[meta-agent why g0/c1 --workspace {tmp_path}]" in said["why not"]
    assert "meta-agent adopt --patches FOLDER" in said["next"]


def test_a_branch_that_was_never_trained_is_told_where_no_other_was_refused(tmp_path: Path) -> None:
    state = state_of(tmp_path / "l.sqlite")
    for one in state.candidates.values():
        one.verdict = {**(one.verdict or {}), "effect": None, "evidence": None}
    assert "g0/c1, never trained, is INVALID: answer leakage" in told(state)["why not"]


def test_a_refused_candidate_whose_cell_was_trained_is_never_called_untrained(
    tmp_path: Path,
) -> None:
    state = state_of(tmp_path / "l.sqlite")
    for candidate in state.candidates.values():
        candidate.verdict = {**(candidate.verdict or {}), "effect": None, "evidence": None}
    barred = {"name": "v0+1", "members": ["r1/g0/c0", "r1/g0/c1"], "clean_success": 0.547}
    other = {"name": "all", "members": ["r1/g0/c1"], "clean_success": 0.3, "valid": True}
    state.cells = [CellView.parse(cell) for cell in (other, barred)]
    assert (
        "g0/c1, trained (v0+1) to 54.7 % clean on the search split, is INVALID: answer leakage"
        in told(state)["why not"]
    )


def test_what_is_handed_over_unproven_is_explained_as_well(tmp_path: Path) -> None:
    state = state_of(tmp_path / "l.sqlite")
    for one in state.candidates.values():
        one.merge = None
    state.lead = {"members": ["r1/g0/c0"]}
    assert told(state)["why"].startswith("g0/c0, the reward counts tests")


def test_what_a_proof_lacks_comes_next() -> None:
    words = (
        "+10.9 points [+4.8, +17.0] over the start; 7 pairs may prove it: --budget 9 begins a run"
    )
    state = RunState("r", exit_reason="done", handover={"standing": "unproven", "words": words})
    assert told(state)["next"].startswith("7 pairs may prove it: --budget 9 begins a run.")


def test_who_brought_a_harness_gets_a_branch(tmp_path: Path) -> None:
    state = state_of(tmp_path / "l.sqlite")
    brought = replace(state, config={**state.config, "harness": "/home/agent"})
    assert "meta-agent adopt --into CLONE" in told(brought)["next"]


def test_nothing_found_is_said_as_that() -> None:
    state = RunState("r", exit_reason="done", handover={"standing": "start", "words": "the start"})
    said = told(state)
    assert "Nothing that was tried was proven to be better" in said["what happened"]
    assert "meta-agent report" in said["next"]
    unproven = told(RunState("r", exit_reason="done", handover={"standing": "unproven"}))
    assert "No better harness was proven" in unproven["what happened"]
    assert "--dry-run" in unproven["next"]


@pytest.mark.parametrize(
    ("reason", "happened", "command"),
    [
        (None, "stopped without a word", "meta-agent evolve"),
        ("interrupted", "was interrupted", "meta-agent evolve"),
        ("infrastructure", "a server failed", "meta-agent evolve"),
        ("budget", "a cap on money", "meta-agent evolve"),
        (HOSTILE, "ended: ends", "meta-agent evolve"),
    ],
)
def test_a_run_that_has_not_ended_says_how_it_goes_on(
    reason: str | None, happened: str, command: str
) -> None:
    said = told(RunState("r", exit_reason=reason))
    assert happened in said["what happened"] and command in said["next"]
    assert "0 ideas, 0 of them judged" in said["so far"]
    assert not any("\x1b" in text or "\u202e" in text for text in said.values())


def test_what_goes_on_is_the_command_that_it_was_begun_with() -> None:
    origin = dict.fromkeys(("profile", "workspace", "tasks", "models"), "command line")
    config = {"profile": "tiny", "tasks": "a b", "models": {"x": "y"}, "seed": 3}
    config["origin"] = {**origin, "seed": "default"}
    said = told(RunState("r", config=config, workspace="/w"))
    expected = "[meta-agent evolve --profile tiny --tasks 'a b' --models ... --workspace /w]"
    assert said["next"].endswith(expected)


def test_a_running_one_needs_nothing_and_a_parked_one_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    write_sample(path, finished=False)
    with Ledger.open(path) as ledger:
        running = told(reduce(ledger))
    assert "at work: collect" in running["what happens"] and "log --follow" in running["next"]
    parked = told(state_of(tmp_path / "p.sqlite", waits_for="g1/c2"))
    assert "waits for a person: g1/c2: may it be tested?" in parked["what happened"]
    assert "meta-agent approve g1/c2" in parked["next"]


def test_suggested_commands_quote_the_workspace() -> None:
    state = RunState("r", config={}, workspace="/my runs/w")
    assert state.workspace_flag == " --workspace '/my runs/w'"
