"""`init --harness FOLDER`, `check`, `adopt`: as a person types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from meta_agent.cli._app import app
from meta_agent.core.errors import ConfigError, MetaAgentError
from meta_agent.core.history import HarnessRepo

from ..steps.test_bring import FILES, git, promoted, written

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
    again = meta_agent("check", *PROCESS, "--json")
    assert again.exit_code == 0 and len(json.loads(again.stdout)["checks"]) == 4
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
    assert "taken as committed, not as changed: prompt.md" in made.stderr
    assert made.stderr.count("taken as committed") == 1


def test_init_may_be_repeated(agent: Path, meta_agent: Type) -> None:
    for _ in range(2):
        made = meta_agent("init", "--harness", agent, "--no-check", "--json")
        assert made.exit_code == 0 and "checks" not in json.loads(made.stdout)


def test_init_of_another_harness_does_not_pass_for_done(agent: Path, meta_agent: Type) -> None:
    meta_agent("init", "--harness", agent, "--no-check")
    again = meta_agent("init", "--harness", agent, "--no-check", "--command", "other {prompt}")
    assert again.exit_code == 0 and "the agent is not read again" in again.stderr
    error = raised(meta_agent("init", "--harness", "seed"))
    assert error.exit_code == 2 and f"holds the harness {agent}, not seed" in str(error)
    error = raised(meta_agent("evolve", "--dry-run", "--harness", "seed"))
    assert error.exit_code == 2 and f"holds the harness {agent}, not seed" in str(error)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--command", "python3 'x"), "no closing quotation"),
        (("--harness", "seed", "--editable", "**"), "the built-in harness seed"),
        (("--harness", "git@example.org:x/y"), "https:// addresses"),
    ],
)
def test_flags_that_cannot_hold_are_a_mistake_and_no_bug(
    meta_agent: Type, flags: tuple[str, ...], words: str
) -> None:
    error = raised(meta_agent("init", *flags))
    assert error.exit_code == 2 and words in str(error) and error.hint


def test_a_command_that_cannot_start_is_told_before_anything_is_paid(
    agent: Path, meta_agent: Type
) -> None:
    made = meta_agent("init", "--harness", agent, "--command", "no-such {prompt}", *PROCESS)
    assert made.exit_code == 1
    assert "FAILED command starts" in made.stderr and "sandbox build" in made.stderr


def raised(result: Result) -> MetaAgentError:
    assert isinstance(result.exception, MetaAgentError), result.output
    return result.exception


def test_a_harness_that_is_nothing_we_know(meta_agent: Type) -> None:
    error = raised(meta_agent("init", "--harness", "compitent"))
    assert isinstance(error, ConfigError) and "expected seed, competent, a folder" in str(error)


def test_adopt_writes_to_one_place(meta_agent: Type) -> None:
    assert "exactly one destination" in str(raised(meta_agent("adopt")))


def test_an_image_takes_names_of_packages_only(meta_agent: Type, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    for line in (
        "-e .",
        "x @ https://example.org/x.whl",
        "./x",
        "git+https://x",
        "--no-binary :all:",
    ):
        file.write_text(f"anthropic\n{line}\n")
        result = CliRunner().invoke(
            app, ["sandbox", "build", "--requirements", str(file), "--tag", "x:1"]
        )
        assert "is not NAME" in str(raised(result)), line


def test_an_agent_of_somebody_needs_real_tasks(agent: Path, meta_agent: Type) -> None:
    error = raised(meta_agent("evolve", "--harness", agent))
    assert "needs tasks" in str(error)
