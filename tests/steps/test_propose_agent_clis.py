"""The real programs of two makers (`make coding-agents`), whose models are a loopback server."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import PreflightError, ProviderError
from meta_agent.core.loop.verbs.propose import propose
from meta_agent.proposers import CodingAgent, agent_cli, require_agent
from tests.loopback import Brain, Call, Fault, Say, anthropic_server, openai_server
from tests.steps._bench import Bench
from tests.steps._coding_agent import QUOTE

PROGRAMS = os.environ.get("CODING_AGENTS", "")
HYPOTHESIS = {
    "subject": "allow more turns",
    "factor": "scaffold",
    "statement": "if attempts may take 9 turns then more end because they are cut",
    "metric": "clean_success",
    "direction": "up",
    "expected_delta": 0.03,
    "evidence": [{**QUOTE, "path": "harness/swe/agent.py"}],
}


@pytest.fixture(autouse=True)
def other_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex prepares its sandbox in its home, and refuses a home among temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


def needs(program: str) -> pytest.MarkDecorator:
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}" if PROGRAMS else os.environ["PATH"]
    missing = shutil.which(program, path=path) is None
    return pytest.mark.skipif(missing, reason=f"no {program}: make coding-agents (needs npm)")


pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
both = pytest.mark.parametrize(
    "name",
    [pytest.param("claude", marks=needs("claude")), pytest.param("codex", marks=needs("codex"))],
)


def environment(home: Path, **more: str) -> dict[str, str]:
    """A machine with a new home, where the programs are installed."""
    home.mkdir(exist_ok=True)
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}" if PROGRAMS else os.environ["PATH"]
    return {"HOME": str(home), "CODEX_HOME": str(home), "PATH": path, **more}


def logged_in(name: str, home: Path, url: str) -> dict[str, str]:
    """The same with a login that the loopback server takes."""
    if name == "claude":
        return environment(home, ANTHROPIC_API_KEY="fake", ANTHROPIC_BASE_URL=url)
    found = environment(home, CODEX_API_KEY="fake")
    (home / "config.toml").write_text(
        'model = "loopback"\nmodel_provider = "loopback"\n[model_providers.loopback]\n'
        f'name = "loopback"\nbase_url = "{url}"\nenv_key = "CODEX_API_KEY"\n'
        'wire_api = "responses"\n'
    )
    return found


def claude_brain(call: Call) -> Say:
    """Reads, edits and writes with the program's own tools."""
    if not call.tools:
        return Say("a title")
    (root,) = set(re.findall(r"/\S*?/meta-agent-agent-\w+", json.dumps(call.messages)))
    agent = f"{root}/harness/swe/agent.py"
    steps: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"file_path": agent}),
        (
            "Edit",
            {"file_path": agent, "old_string": "MAX_TURNS = 8", "new_string": "MAX_TURNS = 9"},
        ),
        ("Write", {"file_path": f"{root}/hypothesis.json", "content": json.dumps(HYPOTHESIS)}),
    ]
    done = sum(message["role"] == "tool" for message in call.messages)
    if done == len(steps):
        return Say("done", input_tokens=100, output_tokens=5)
    return Say(tool_calls=[steps[done]], input_tokens=100, output_tokens=5)


def codex_brain(call: Call) -> Say:
    """Does all by two commands of its shell."""
    text = json.dumps(HYPOTHESIS)
    commands = [
        "sed -i 's/MAX_TURNS = 8/MAX_TURNS = 9/' harness/swe/agent.py",
        f"cat > hypothesis.json <<'END'\n{text}\nEND",
    ]
    done = sum(message["role"] == "tool" for message in call.messages)
    if done == len(commands):
        return Say("done", input_tokens=100, output_tokens=5)
    calls = [("exec_command", {"cmd": commands[done]})]
    return Say(tool_calls=calls, input_tokens=100, output_tokens=5)


BRAINS: dict[str, Brain] = {"claude": claude_brain, "codex": codex_brain}
SERVERS = {"claude": anthropic_server, "codex": openai_server}


def asked(bench: Bench, name: str, variables: dict[str, str]) -> CodingAgent:
    cli = agent_cli(f"agent:{name}")
    require_agent(cli, None, variables)
    return CodingAgent(
        cli,
        run="r",
        records=bench.repo.path.parent / "agents",
        ledger=bench.run.ledger,
        environment=variables,
    )


@both
def test_it_edits_the_harness_and_says_what_it_used(
    name: str, bench: Bench, tmp_path: Path
) -> None:
    with SERVERS[name](BRAINS[name]) as url:
        bench.run.extensions.proposer = asked(bench, name, logged_in(name, tmp_path / "home", url))
        bench.run.config = bench.run.config.model_copy(update={"candidates": 1})
        candidates = propose(bench.run, bench.collected(), bench.reading, 0)
    printed = (tmp_path / "agents" / "g0-c0-1" / "output.txt").read_text()
    (step,) = bench.run.ledger.steps(kind="proposal")
    assert len(candidates) == 1, (step.outcome["refused"], printed[-3000:])
    tree = bench.repo.tree(candidates[0].commit)
    assert b"MAX_TURNS = 9" in tree.files["swe/agent.py"]
    assert bench.run.ledger.spend("r")["proposer"].tokens == 105 * (4 if name == "claude" else 3)


@both
def test_a_server_that_refuses_its_login_stops_the_run(
    name: str, bench: Bench, tmp_path: Path
) -> None:
    with SERVERS[name](lambda _: Fault.status(400, "your login has expired")) as url:
        bench.run.extensions.proposer = asked(bench, name, logged_in(name, tmp_path / "home", url))
        with pytest.raises(ProviderError, match="your login has expired"):
            propose(bench.run, bench.collected(), bench.reading, 0)


@both
def test_without_a_login_nothing_is_asked(name: str, tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="not logged in") as refusal:
        require_agent(agent_cli(f"agent:{name}"), None, environment(tmp_path / "home"))
    assert "login" in str(refusal.value.hint)
