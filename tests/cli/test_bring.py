"""`init --harness FOLDER`, `check`, `adopt`: as a person types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from meta_agent.cli._app import app
from meta_agent.core.errors import MetaAgentError
from meta_agent.core.history import HarnessRepo

from ..steps._brought import FILES, git, promoted, written

PROCESS = ("--sandbox", "process", "--allow-unsafe-process")
Type = Callable[..., Result]


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    folder = written(tmp_path / 'my "agent"', FILES)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "mine")
    return folder


@pytest.fixture
def meta_agent(tmp_path: Path) -> Type:
    def run(*argv: object) -> Result:
        place = ("--workspace", str(tmp_path / "space"))
        return CliRunner().invoke(app, [*map(str, argv), *place])

    return run


def test_an_agent_is_brought_checked_and_handed_back(
    agent: Path, meta_agent: Type, tmp_path: Path
) -> None:
    made = meta_agent("init", "--harness", agent, *PROCESS, "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["harness"] == str(agent)
    assert [row["ok"] for row in told["checks"]] == [True] * 4
    assert "agent.py" in made.stderr  # how it is started was found, and is said
    again = meta_agent("doctor", "--harness", *PROCESS, "--json")
    rows = [row for row in json.loads(again.stdout)["checks"] if row["name"].startswith("harness:")]
    assert [row["level"] for row in rows] == ["ok"] * 4
    promoted(HarnessRepo.open(tmp_path / "space" / "harness_repo"), "prompt.md", "Look first.\n")
    done = meta_agent("adopt", "--into", agent, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["commits"] == 1
    assert git(agent, "show", "meta-agent:prompt.md") == "Look first."
    patched = meta_agent("adopt", "--patches", tmp_path / "patches", "--json")
    assert patched.exit_code == 0 and len(list((tmp_path / "patches").iterdir())) == 1


def test_uncommitted_changes_of_a_clone_are_named(agent: Path, meta_agent: Type) -> None:
    (agent / "prompt.md").write_text("Changed and not committed.\n")
    made = meta_agent("init", "--harness", agent, *PROCESS, "--no-check")
    assert made.exit_code == 0, made.output
    assert [line for line in made.stderr.splitlines() if line.endswith(": prompt.md")][1:]


def test_init_may_be_repeated_but_not_for_another_harness(agent: Path, meta_agent: Type) -> None:
    for _ in range(2):
        made = meta_agent("init", "--harness", agent, "--no-check", "--json")
        assert made.exit_code == 0 and "checks" not in json.loads(made.stdout)
    again = meta_agent("init", "--harness", agent, "--no-check", "--command", "other {prompt}")
    assert again.exit_code == 0 and again.stderr
    for words in (("init",), ("evolve", "--dry-run")):
        error = raised(meta_agent(*words, "--harness", "seed"))
        assert error.exit_code == 2 and str(agent) in str(error) and "seed" in str(error)
    # An agent of somebody needs tasks that are real.
    assert raised(meta_agent("evolve", "--harness", agent)).exit_code == 2


def test_a_command_that_cannot_start_is_told_before_anything_is_paid(
    agent: Path, meta_agent: Type
) -> None:
    made = meta_agent("init", "--harness", agent, "--command", "no-such {prompt}", *PROCESS)
    assert made.exit_code == 1
    assert "FAILED" in made.stderr and "meta-agent sandbox build" in made.stderr


def raised(result: Result) -> MetaAgentError:
    assert isinstance(result.exception, MetaAgentError), result.output
    return result.exception
