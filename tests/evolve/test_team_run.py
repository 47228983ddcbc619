"""The recorded run of a team, again, without a provider: its edits, measured anew by training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_agent.sandbox import engine_status

EXAMPLE = Path(__file__).parents[2] / "examples" / "team-run"
LIMIT_SEC = 2400
OURS = 2
"""Requests that hold an error message with line numbers of our own source, which changes."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.train,
    pytest.mark.timeout(LIMIT_SEC + 60),
]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The state of a replay in an empty workspace, by the command of the example's README."""
    if not engine_status().ready:
        pytest.skip("needs Docker: the edits were written by a model")
    argv = [
        *(sys.executable, "-m", "meta_agent", "evolve", "--domain", "math"),
        *("--seed", "4", "--candidates", "3", "--generations", "2", "--json"),
        *("--meta-model", f"replay:{EXAMPLE / 'transcripts'}", "--replay-match", "position"),
    ]
    own = ("_API_KEY", "_BASE_URL")
    ran = subprocess.run(
        argv,
        cwd=tmp_path_factory.mktemp("replayed"),
        env={name: value for name, value in os.environ.items() if not name.endswith(own)},
        capture_output=True,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    state: dict[str, Any] = json.loads(ran.stdout)
    return state


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLE / "result.json").read_text())
    return found


def test_it_ends_proven_and_pays_nobody(replayed: dict[str, Any]) -> None:
    assert replayed["exit_reason"] == "done"
    assert replayed["spend"]["by_role"] == {}
    assert replayed["handed_over"]["standing"] == "proven"
    assert replayed["final"]["clean_success"] > replayed["baseline"]["clean_success"] + 0.5


def test_where_nothing_drifted_every_commit_and_verdict_is_the_recorded_one(
    replayed: dict[str, Any],
) -> None:
    if (drift := replayed["replay"]["drift"]) > OURS:
        pytest.skip(f"{drift} requests differ: this machine measures other figures than recorded")
    kept = ("id", "commit", "factor", "verdict")
    told = [{name: one[name] for name in kept} for one in replayed["candidates"]]
    assert told == recorded()["candidates"]
    for side in ("baseline", "final"):
        assert replayed[side]["clean_success"] == recorded()[side]["clean_success"]
