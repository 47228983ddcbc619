"""A coding agent proposes: real processes, sandbox, git and quarantine; the program is scripted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_agent.composition.preflight import preflight, require_supported
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import (
    CandidateError,
    ConfigError,
    Interrupted,
    MetaAgentError,
    ProviderError,
)
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.proposers import CodingAgent, agent_cli
from meta_agent.proposers.agent_cli import SessionLimits, _variables, withheld
from tests.steps import _coding_agent
from tests.steps._bench import Bench

PROGRAM = f"agent:{sys.executable} {_coding_agent.__file__}"
SHORT = SessionLimits(seconds=3.0, turns=20, printed_bytes=1 << 20)


def with_agent(bench: Bench, way: str, k: int = 1, limits: SessionLimits = SHORT) -> Path:
    """The bench's run with the program as its meta-agent; returns the folder of its records."""
    model, records = f"{PROGRAM} {way}", bench.repo.path.parent / "agents" / "r"
    bench.run.config = RunConfig(profile="tiny", meta_model=model, candidates=k)
    bench.run.extensions.proposer = CodingAgent(
        agent_cli(model), run="r", records=records, ledger=bench.run.ledger, limits=limits
    )
    return records


def proposal(bench: Bench) -> dict[str, Any]:
    """The outcome of the step, after the program was asked."""
    propose(bench.run, bench.collected(), bench.reading, 0)
    (step,) = bench.run.ledger.steps(kind="proposal")
    outcome: dict[str, Any] = step.outcome
    return outcome


def test_what_it_leaves_becomes_a_candidate_which_a_person_may_send_back(bench: Bench) -> None:
    records = with_agent(bench, "good")
    collected = bench.collected()
    (candidate,) = propose(bench.run, collected, bench.reading, 0)
    assert b"MAX_TURNS = 9" in bench.repo.tree(candidate.commit).files["swe/agent.py"]
    assert candidate.hypothesis.evidence == ("swe/agent.py:8: MAX_TURNS = 8",)
    assert b'"total_cost_usd"' in (records / "g0-c0-1" / "output.txt").read_bytes()
    spent = bench.run.ledger.spend("r")["proposer"]
    assert (spent.tokens, spent.usd, spent.calls, spent.open_tokens) == (142, 0.25, 1, 0)
    revised = revise(bench.run, collected, bench.reading, candidate, "say why nine")
    assert revised is not None and revised.id.endswith("g0/c1")
    assert "say why nine" in (records / "g0-c1-1" / "prompt.md").read_text()


def test_each_session_is_told_of_the_ideas_before_it_and_may_end_the_search(bench: Bench) -> None:
    with_agent(bench, "each", k=3)
    first, second = propose(bench.run, bench.collected(), bench.reading, 0)
    assert first.hypothesis.statement != second.hypothesis.statement


def test_it_may_say_that_nothing_can_help(bench: Bench) -> None:
    with_agent(bench, "nothing", k=3)
    assert proposal(bench)["nothing"] == "all attempts are clean"


def test_it_may_mend_once_what_cannot_be_taken(bench: Bench) -> None:
    records = with_agent(bench, "mends")
    assert len(proposal(bench)["admitted"]) == 1
    assert [place.name for place in sorted(records.iterdir())] == ["g0-c0-1", "g0-c0-2"]


REFUSED = {
    "protected": "protected_path",
    "two_factors": "several_factors",
    "deletes": "protected_path",
    "deletes_itself": "no_hypothesis",
    "silent": "no_hypothesis",
    "hangs": "time_limit",
    "chatters": "turn_limit",
    "floods": "output_limit",
    "links": "not_a_regular_file",
    "links_a_folder": "not_a_regular_file",
    "links_its_hypothesis": "not_a_regular_file",
    "pipes": "not_a_regular_file",
    "nests": "too_deep",
    "large": "object_too_large",
    "not_json": "bad_hypothesis",
    "not_text": "path_name",
}


@pytest.mark.parametrize("way", REFUSED)
def test_a_program_that_misbehaves_is_refused_with_a_reason(way: str, bench: Bench) -> None:
    with_agent(bench, way)
    (refused,) = proposal(bench)["refused"]
    assert refused["code"] == REFUSED[way], refused
    assert bench.repo.candidates() == {}


def test_work_that_is_done_counts_though_the_program_hangs(bench: Bench) -> None:
    with_agent(bench, "hangs_after_its_work")
    assert len(proposal(bench)["admitted"]) == 1


def test_no_repository_of_the_program_is_opened(bench: Bench, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    with_agent(bench, f"repository {opened}")
    (row,) = proposal(bench)["admitted"]
    assert row["paths"] == ["swe/agent.py"]
    assert not opened.exists()


FAILS = {
    "fails": "the login has expired",
    "is_limited": "limit reached",
    "is_limited_in_a_list": "it printed nothing",
    "fails_its_turn": "limit reached",
    "is_limited_after_its_work": "limit reached",
    "is_limited_as_it_mends": "limit reached",
    "fails_as_it_mends": "the login has expired",
}


@pytest.mark.parametrize("way", FAILS)
def test_a_program_that_fails_stops_the_run_and_is_asked_again(way: str, bench: Bench) -> None:
    with_agent(bench, way)
    with pytest.raises(ProviderError) as failed:
        proposal(bench)
    assert failed.value.exit_code == 5 and FAILS[way] in str(failed.value)
    with_agent(bench, "good")
    assert len(proposal(bench)["admitted"]) == 1


def test_a_program_that_tries_again_and_succeeds_did_not_fail(bench: Bench) -> None:
    with_agent(bench, "tries_again")
    assert len(proposal(bench)["admitted"]) == 1


def test_what_it_left_is_not_asked_for_again(bench: Bench) -> None:
    records = with_agent(bench, "good")
    brief_of: list[Any] = []
    agent = bench.run.extensions.proposer
    real = agent.propose
    agent.propose = lambda brief: (brief_of.append(brief), real(brief))[1]  # type: ignore[method-assign]
    propose(bench.run, bench.collected(), bench.reading, 0)
    again = CodingAgent(agent_cli(f"{PROGRAM} fails"), run="r", records=records)
    drafts = [again.propose(brief_of[0]).attempts, real(brief_of[0]).attempts]
    assert drafts[0] == drafts[1]
    assert bench.run.ledger.spend("r")["proposer"].calls == 1


def test_it_ends_when_the_user_stops_the_run(bench: Bench) -> None:
    with_agent(bench, "hangs", limits=SessionLimits())
    collected = bench.collected()
    bench.stop = True
    with pytest.raises(Interrupted):
        propose(bench.run, collected, bench.reading, 0)


def test_it_sees_no_variable_but_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not for it")
    records = with_agent(bench, "good")
    bench.run.extensions.proposer = CodingAgent(
        agent_cli("agent:env"),
        run="r",
        records=records,
        key_variable="MINE",
        environment={"MINE": "its own", "PATH": os.environ["PATH"], "OPENAI_API_KEY": "x"},
    )
    proposal(bench)
    printed = (records / "g0-c0-1" / "output.txt").read_text()
    assert "MINE=its own" in printed and "OPENAI_API_KEY" not in printed


SEEN = {
    "ANTHROPIC_API_KEY": "mine\n",
    "AWS_REGION": "eu",
    "AWS_SECRET_ACCESS_KEY": "cloud",
    "OPENAI_API_KEY": "x",
    "https_proxy": "http://me:secret@proxy:8080",
    "NODE_EXTRA_CA_CERTS": "/certs.pem",
}


@pytest.mark.parametrize(("switch", "sees_the_cloud"), [("1", True), ("0", False), ("", False)])
def test_a_clouds_login_brings_its_variables(switch: str, sees_the_cloud: bool) -> None:
    environment = {**SEEN, "CLAUDE_CODE_USE_BEDROCK": switch}
    cli = agent_cli("agent:claude")
    passed = _variables(cli, None, environment)
    assert {"https_proxy", "NODE_EXTRA_CA_CERTS"} <= passed.keys()
    assert passed["ANTHROPIC_API_KEY"] == "mine"
    assert ("AWS_REGION" in passed, "AWS_SECRET_ACCESS_KEY" in passed) == (sees_the_cloud,) * 2
    hidden = {"OPENAI_API_KEY"} | (set() if sees_the_cloud else {"AWS_SECRET_ACCESS_KEY"})
    assert set(withheld(cli, None, environment)) == hidden


# --- before money is spent -----------------------------------------------------------------------


def program(folder: Path, name: str, version: str, logged_in: bool) -> None:
    path = folder / name
    status = 0 if logged_in else 1
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit 0\nexit {status}\n'
    )
    path.chmod(0o755)


BAD: dict[str, tuple[str, str, str]] = {
    "missing": ("agent:no-such-program --yes", "no-such-program", ""),
    "no login": ("agent:claude", "claude", "claude auth login"),
    "old": ("agent:codex", "codex-cli 0.9.1", "npm install -g @openai/codex"),
    "empty": ("agent: ", "agent", "agent:claude"),
    "unclosed": ("agent:run 'me", "quotation", ""),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_anything_starts(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "claude", "2.1.5 (Claude Code)", logged_in=False)
    program(tmp_path, "codex", "codex-cli 0.9.1", logged_in=True)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    model, message, hint = BAD[case]
    with pytest.raises(MetaAgentError, match=message) as refusal:
        preflight(RunConfig(meta_model=model))
    assert hint in str(refusal.value.hint)


@pytest.mark.parametrize(
    "cap", [{"max_usd": 5}, {"max_tokens": 9}, {"role_max_usd": {"proposer": 1}}]
)
def test_a_cap_that_could_not_hold_is_refused(cap: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="agent:claude"):
        require_supported(RunConfig(meta_model="agent:claude", **cap))


# --- killed --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.timeout(300)
def test_a_killed_run_asks_for_no_session_twice(tmp_path: Path) -> None:
    argv = [
        *(sys.executable, "-m", "meta_agent", "evolve", "--domain", "math", "--profile", "tiny"),
        *("--candidates", "1", "--generations", "1", "--sandbox", "process", "--allow-unsafe"),
        *("--meta-model", f"{PROGRAM} silent"),
    ]
    env = {**os.environ, "META_AGENT_CRASH_AT": "after_work:proposal"}
    killed = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    records = sorted((tmp_path / "meta-agent-workspace" / "agents").rglob("record.json"))
    before = [(path.stat().st_mtime_ns, json.loads(path.read_bytes())) for path in records]
    assert [row["ending"] for _, row in before] == ["by itself", "by itself"]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode == CandidateError.exit_code, ran.stderr[-2000:]
    assert [(path.stat().st_mtime_ns, json.loads(path.read_bytes())) for path in records] == before
