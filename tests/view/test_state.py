"""The reducer: what the ledger recorded, and nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger
from meta_agent.reports import STEP_KINDS, RunState, decisions_on_commit, reduce
from meta_agent.reports._parts import CellView, Measured
from meta_agent.reports.documents import log_json, status_json

from ._sample import write_sample


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    path = tmp_path_factory.mktemp("state") / "ledger.sqlite"
    write_sample(path)
    with Ledger.open(path, owner_lock=False) as opened:
        yield opened


@pytest.fixture
def state(ledger: Ledger) -> RunState:
    return reduce(ledger)


def test_a_workspace_that_was_moved_is_named_where_it_is(tmp_path: Path) -> None:
    was, now = tmp_path / "was", tmp_path / "now"
    was.mkdir()
    with Ledger.open(was / "ledger.sqlite") as ledger:
        config = {"workspace": str(was), "policy": "nano"}
        ledger.start_run("r", config, config_hash="h")
        made = {"checkpoint": str(was / "checkpoints" / "30"), "policy": "nano@1"}
        ledger.once("r/handover", "handover", {}, lambda: made)
    was.rename(now)
    with Ledger.open(now / "ledger.sqlite", owner_lock=False) as ledger:
        state = reduce(ledger)
    assert state.workspace == str(now) and state.config["workspace"] == str(was)
    assert state.product["weights"] == str(now / "checkpoints" / "30")


def test_the_document_of_the_interface(state: RunState) -> None:
    document = state.to_json()
    keys = (
        *("schema_version", "run", "domain", "workspace", "exit_reason", "baseline", "final"),
        *("product", "visible", "results", "versions", "lead", "cells", "claims", "handed_over"),
        *("candidates", "refused", "analyses", "decisions", "skills", "replay", "spend"),
    )
    assert tuple(document) == keys
    assert document["analyses"] == [
        {"generation": 0, "nothing": "", "noted": "the filter drops what is hard"}
    ]
    assert document["baseline"]["clean_success"] == 0.476
    assert list(document["final"]) == [
        "split", "n", "success", "clean_success", "ci", "training_seed", "training_steps",
    ]  # fmt: skip
    assert document["spend"] == {
        "usd": pytest.approx(0.1875 + 0.0312 + 0.02),
        "tokens": 4100 + 81_440 + 3000,
        "rollouts": 256 + 5 * 3840,
        "train_steps": 300,
        "confirm_queries": 5,
        "wall_sec": pytest.approx(state.wall_sec, abs=1e-3),
        "by_role": document["spend"]["by_role"],
    }


def test_spend_is_split_by_role_with_what_is_not_settled(state: RunState) -> None:
    by_role = state.to_json()["spend"]["by_role"]
    assert list(by_role) == ["analyst", "proposer"]
    assert by_role["analyst"] == {
        "calls": 2,
        "tokens": 84_440,
        "usd": pytest.approx(0.0512),
        "open_tokens": 3000,
        "open_usd": pytest.approx(0.02),
        "unpriced_calls": 0,
    }


def test_candidates_refusals_and_decisions_of_the_interface(state: RunState) -> None:
    document = state.to_json()
    first = document["candidates"][0]
    assert (first["id"], first["verdict"], first["screened_out"]) == ("r1/g0/c0", "PROMOTE", False)
    assert first["prediction"]["metric"] == "signal.dead_group_ratio"
    assert (first["effect"]["delta"], first["effect"]["pairs"]) == (0.103, 512)
    kinds = [candidate.kind for candidate in state.candidates.values()]
    assert kinds == ["PROMOTE", "INVALID", "REJECT", "INCONCLUSIVE", "REJECT", "pending"]
    assert [version.version for version in state.versions] == ["v0", "v1"]
    (refused,) = document["refused"]
    assert (refused["generation"], refused["code"]) == (1, "path_outside_allowlist")
    decisions = [(each["subject"], each["answer"], each["by"]) for each in document["decisions"]]
    assert decisions == [("g0/c0", "APPROVE", "a person"), ("g1/c1", "REVISE", "a person")]


def test_what_waits_for_a_person_is_neither_in_flight_nor_decided(tmp_path: Path) -> None:
    write_sample(tmp_path / "l.sqlite", waits_for="g1/c2")
    with Ledger.open(tmp_path / "l.sqlite", owner_lock=False) as ledger:
        state = reduce(ledger)
    assert [one.subject for one in state.waiting] == ["g1/c2"]
    assert state.open_steps == []
    status = status_json(state)
    assert [one["gate"] for one in status["waiting"]] == ["test"]


def test_commits_lead_to_what_people_decided_about_them(ledger: Ledger) -> None:
    merged, candidate = "d" * 40, "11abab"
    for commit in (merged, candidate):
        assert [one.gate for one in decisions_on_commit(ledger, commit)] == ["merge"]
    assert decisions_on_commit(ledger, "f" * 40) == []


@pytest.mark.parametrize("name", ["g0/c1", "r1/g0/c1", "12abab"])
def test_a_candidate_is_found_by_what_people_type(state: RunState, name: str) -> None:
    assert state.candidate(name).id == "r1/g0/c1"


@pytest.mark.parametrize("name", ["c1", "g9/c9", ""])
def test_an_unclear_candidate_is_refused_with_the_list(state: RunState, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        state.candidate(name)
    assert "g0/c0, g0/c1" in str(refused.value.hint)


def test_a_repeated_training_replaces_its_curve(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        for step, reward in ((1, 0.1), (2, 0.2), (1, 0.5), (2, 0.6), (3, 0.7)):
            ledger.event("metrics", {"series": "a/s0", "step": step, "reward": reward, "x": "y"})
        points = reduce(ledger).metrics["a/s0"]
    assert [(point.step, dict(point.values)) for point in points] == [
        (1, {"reward": 0.5}),
        (2, {"reward": 0.6}),
        (3, {"reward": 0.7}),
    ]


def test_an_unpriced_call_makes_the_sum_unknown_not_zero(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        ledger.settle(ledger.reserve("policy", None, 10), None, 10)
        assert reduce(ledger).to_json()["spend"]["usd"] is None


def test_a_step_in_flight_is_shown_as_open(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        with pytest.raises(OSError, match="gone"):
            ledger.once("r/x", "candidate", {}, lambda: (_ for _ in ()).throw(OSError("gone")))
        state = reduce(ledger)
    assert [step.key for step in state.open_steps] == ["r/x"]
    assert status_json(replace(state, owner="12"))["live"] is True
    assert status_json(replace(state, owner=None))["live"] is False


def test_records_of_the_wrong_shape_do_not_break_the_view(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.start_run("r", None, config_hash="h")
        for kind in STEP_KINDS:
            for at, outcome in enumerate((None, [], "x", {}, {"ci": "x", "effect": 3})):
                ledger.once(f"r/{kind}/{at}", kind, {}, lambda outcome=outcome: outcome)
        for kind in ("phase", "note", "metrics", "unknown"):
            ledger.event(kind, None)
        assert reduce(ledger).to_json()["run"] == "r"


def test_the_newest_run_is_the_default_and_an_unknown_one_is_named(ledger: Ledger) -> None:
    assert reduce(ledger).run == "r1"
    with pytest.raises(ConfigError) as refused:
        reduce(ledger, "r9")
    assert "r1" in str(refused.value.hint)


def test_nothing_has_run_yet(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.sqlite") as ledger, pytest.raises(ConfigError):
        reduce(ledger)


def test_log_holds_every_step_and_event(ledger: Ledger) -> None:
    steps, events = ledger.steps("r1"), ledger.events("r1")
    document = log_json("r1", steps, events)
    assert (len(document["steps"]), len(document["events"])) == (len(steps), len(events))
    assert all(step["done"] for step in document["steps"])


def test_a_field_of_another_type_reads_as_empty() -> None:
    odd = {"split": 3, "n": "x", "clean_success": True, "success": 1, "ci": ["a", 1], "seed": False}
    measured = Measured.parse(odd)
    assert (measured.split, measured.n, measured.clean_success) == ("", 0, None)
    assert (measured.success, measured.ci, measured.seed) == (1.0, None, None)
    cell = CellView.parse({"members": "abc", "valid": "yes", "delta": 0.5})
    assert (cell.members, cell.valid, cell.delta) == ((), False, 0.5)
