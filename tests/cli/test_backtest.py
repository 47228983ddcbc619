"""`meta-agent backtest` in a workspace after a run: real repository, store and sandboxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.history import HarnessRepo
from meta_agent.core.history._merging import edit_commit
from meta_agent.core.history._repo import EPOCH
from meta_agent.core.lab.arms import behaviour_hash
from meta_agent.core.ledger import Ledger
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.workspace import Workspace, init_workspace
from tests.backtest._harness import FILES, PAYS_LEAKS, groups

from .conftest import Runner

RUN = "swe-0123456789"
ALARM = """
NAME, LAYER = "failed", "score"
THRESHOLDS = {"share": {"warn": 0.1, "direction": "above"}}

def measure(rollouts):
    return {"share": sum(not r["outcome"] for r in rollouts) / len(rollouts)}
"""


def commit(repo: HarnessRepo, onto: str, name: str, path: str, text: str) -> str:
    """A branch with one file changed, as a person would make it."""
    made = edit_commit(repo._git, onto, {path: text.encode()}, f"feat: {name}\n", EPOCH + 1)
    repo._git.run("update-ref", f"refs/heads/{name}", made)
    return made


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """One run: a base, its training rollouts, and a candidate that pays for leaks."""
    files = {path: text.encode() for path, text in FILES.items()}
    create = lambda path: HarnessRepo.create(path, files, "feat: base")  # noqa: E731
    root = tmp_path / "w"
    made = init_workspace(root, domain="swe", create_repo=create)
    repo, store = HarnessRepo(made.harness_repo), RolloutStore(made.rollouts)
    base = repo.head()
    leaks = commit(repo, base, "leaky", "lab/reward.py", PAYS_LEAKS)
    commit(repo, base, "watchful", "lab/diagnostics/failed.py", ALARM)
    commit(repo, base, "eager", "lab/agent.py", "async def run(task, model, tools):\n    pass\n")
    shard = store.write(f"{RUN}/train-x-s0-n2", groups("lllmm"))
    with Ledger.open(made.ledger_file) as ledger:
        config = RunConfig(workspace=root, sandbox="process")
        ledger.start_run(RUN, config.to_json(), config_hash="h")
        _record(ledger, repo, base, leaks, {"name": shard.name, "sha256": shard.sha256})
        ledger.finish_run(RUN, "done")
    return made


def _record(ledger: Ledger, repo: HarnessRepo, base: str, leaks: str, shard: Any) -> None:
    behaviour = behaviour_hash(repo.tree(base))
    intent = {"behaviour": behaviour, "seed": 0, "steps": 2}
    ledger.once(f"{RUN}/train/x-s0-n2", "train", intent, lambda: {"shard": shard})
    told = {"metric": "clean_success", "direction": "up", "expected_delta": 0.1}
    candidate = {"id": f"{RUN}/g0/c0", "commit": leaks, "base": base, "factor": "reward"}
    outcome = {**candidate, "hypothesis": told}
    ledger.once(f"{RUN}/g0/c0", "candidate", {"commit": leaks}, lambda: outcome)


def document(meta_agent: Runner, place: Workspace, *arguments: str) -> dict[str, Any]:
    return meta_agent("backtest", *arguments, "--json", cwd=place.root).document


def test_the_newest_candidate_against_its_base(meta_agent: Runner, place: Workspace) -> None:
    found = document(meta_agent, place)
    assert (found["version"]["name"], found["against"]["name"]) == (f"{RUN}/g0/c0", "its base")
    assert found["changed"] == ["lab/reward.py"] and found["factors"] == ["reward"]
    assert found["replay"]["reading"] == "harms"
    assert found["replay"]["after"]["good_outranked"] > 0
    assert "not for the behaviour" in found["replay"]["limit"]
    assert found["rollouts"] == [f"{RUN}/train-x-s0-n2"]
    assert found["diagnostics"] is None


def test_what_people_see(meta_agent: Runner, place: Workspace) -> None:
    done = meta_agent("backtest", "g0/c0", cwd=place.root)
    assert done.returncode == 0, done.stderr
    for words in ("harms", "clean ranked below an unclean one", "Kendall", "flagged_solution"):
        assert words in done.stdout


@pytest.mark.parametrize("name", ["leaky", "commit", "g0/c0"])
def test_a_branch_a_commit_and_a_candidate_are_the_same(
    meta_agent: Runner, place: Workspace, name: str
) -> None:
    leaky = HarnessRepo(place.harness_repo).tip("refs/heads/leaky")
    assert leaky is not None
    found = document(meta_agent, place, leaky[:10] if name == "commit" else name)
    assert found["version"]["commit"] == leaky
    assert found["replay"]["reading"] == "harms"


def test_against_another_branch(meta_agent: Runner, place: Workspace) -> None:
    found = document(meta_agent, place, "main", "--against", "leaky")
    assert found["replay"]["reading"] == "improves"


def test_a_changed_diagnostic_is_run_over_the_same_rollouts(
    meta_agent: Runner, place: Workspace
) -> None:
    (row,) = document(meta_agent, place, "watchful")["diagnostics"]
    assert (row["diagnostic"], row["before"], row["alarm_after"]) == ("failed", None, True)
    assert row["false_alarm"] is False


def test_what_stored_rollouts_cannot_tell_is_said(meta_agent: Runner, place: Workspace) -> None:
    done = meta_agent("backtest", "eager", cwd=place.root)
    assert "scaffold changed: stored rollouts cannot tell" in done.stdout


def test_ceilings(meta_agent: Runner, place: Workspace) -> None:
    lower = document(meta_agent, place, "--max-turns", "4")["replay"]["ceiling"]
    assert lower["cut"] > 0 and lower["clean_lost_at_most"] > 0 and lower["unknowable"] is None
    higher = document(meta_agent, place, "--max-turns", "99")["replay"]["ceiling"]
    assert higher["cut"] == 0 and "cannot be known" in higher["unknowable"]
    done = meta_agent("backtest", "--max-turns", "4", cwd=place.root)
    assert "clean successes lost" in done.stdout and "at most" in done.stdout


def test_nothing_is_recorded(meta_agent: Runner, place: Workspace) -> None:
    before = place.ledger_file.read_bytes()
    document(meta_agent, place)
    assert place.ledger_file.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (("nobody",), "no candidate, version, branch or commit", "candidates: g0/c0"),
        (("--against", "-x"), "no candidate, version, branch or commit", "branch"),
        (("--rollouts", "none"), "no run or shard is named", "train-x-s0-n2"),
        (("--max-turns", "0"), "a ceiling is at least 1", ""),
    ],
)
def test_a_mistake_names_what_would_work(
    meta_agent: Runner, place: Workspace, arguments: tuple[str, ...], problem: str, hint: str
) -> None:
    done = meta_agent("backtest", *arguments, cwd=place.root)
    assert done.returncode == 2
    assert problem in done.stderr and hint in done.stderr


def test_before_any_run_the_next_command_is_named(meta_agent: Runner, tmp_path: Path) -> None:
    root = tmp_path / "new"
    init_workspace(root, domain="swe", create_repo=lambda path: path.mkdir())
    with Ledger.open(root / "ledger.sqlite"):
        pass
    done = meta_agent("backtest", cwd=root)
    assert done.returncode == 2 and "meta-agent evolve" in done.stderr


def test_history_and_report_tell_how_predictions_did(meta_agent: Runner, place: Workspace) -> None:
    with Ledger.open(place.ledger_file) as ledger:
        ledger.start_run(RUN, {}, config_hash="h")
        scored = {"predicted": 0.1, "realised": -0.2}
        verdict: dict[str, Any] = {
            "candidate": f"{RUN}/g0/c0", "commit": "c", "kind": "REJECT", "reasons": ["so"],
            "arms": [{}, {}], "calibration": scored, "effect": None, "evidence": {},
        }  # fmt: skip
        ledger.once(f"{RUN}/g0/c0/verdict", "verdict", {}, lambda: verdict)
        ledger.finish_run(RUN, "done")
    told = document(meta_agent, place, "--history")
    assert told["agreement"]["proposer"]["n"] == 1
    assert told["agreement"]["proposer"]["right_direction"] == 0
    assert told["candidates"][0]["realised"] == -0.2
    assert "n 1, right direction 0" in meta_agent("backtest", "--history", cwd=place.root).stdout
    page = place.root / "report.html"
    report = meta_agent("report", "--html", str(page), "--json", cwd=place.root).document
    assert report["predictions"]["proposer"]["n"] == 1
    assert "Gains and forecasts" in page.read_text()
    assert json.loads(json.dumps(report))
