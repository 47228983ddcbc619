"""Agents that know nothing of us go through the loop: an edit of a prompt is measured and judged.

mini-swe-agent, unmodified (litellm inside, OpenAI's protocol), and an agent over the anthropic SDK
that streams. Neither has a network or a key; both are answered by the same frozen policy.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, Cli, behind
from tests.acceptance._tasks import few
from tests.acceptance.brains import Configurer, Fix, ShellSolver
from tests.loopback import anthropic_server, openai_server

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(2400)]
EXAMPLES = Path(__file__).parents[2] / "examples" / "bring-your-own"
TEAM = ("analyst", "proposer", "reviewer", "librarian")


class Agent(NamedTuple):
    """Somebody's agent, and the edit of its prompt that helps this policy."""

    name: str
    file: str
    before: str
    demand: str


AGENTS = (
    Agent(
        "mini-swe-agent",
        "mini.yaml",
        "    When you are done, run `echo",
        "    Before you submit, run the example of the report again, and mend what is wrong.\n\n",
    ),
    Agent(
        "streaming-agent",
        "prompt.md",
        "When the work is done, say so",
        "Before you submit, run the example of the report again and mend what is wrong. ",
    ),
)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_an_edit_of_its_prompt_goes_through_the_loop(
    agent: Agent, tasks: Path, fixes: list[Fix], make_cli: Callable[..., Cli]
) -> None:
    cli, source = make_cli(agent.name), EXAMPLES / agent.name
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    image = cli(
        *("sandbox", "build", "--tag", f"{agent.name}:1"),
        *("--requirements", str(source / "requirements.txt")),
        ok=(0, 3, 5),
    )
    if image.returncode:
        pytest.skip(f"no image for {agent.name}: {image.stderr.strip()[-300:]}")
    cli.init("--harness", str(source), "--tasks", str(tasks))
    key = CANARIES["LOOPBACK_KEY"]
    with (
        openai_server(
            ShellSolver(fixes, first_right=0.0, mends=1.0), key=key, serial=False
        ) as policy,
        anthropic_server(Configurer(*agent[1:]), key=key, serial=False) as team,
    ):
        result = cli.evolve(
            *("--tasks", str(few(tasks, search=2, confirm=8, vault=1))),
            *("--harness", str(source), "--generations", "1", "--candidates", "1"),
            *("--policy", "openai/solver", "--meta-model", "anthropic/team"),
            *behind({"policy": policy, **dict.fromkeys(TEAM, team)}),
            *("--samples", "1", "--sandbox", "docker", "--max-usd", "20"),
        )
    (candidate,) = result["candidates"]
    assert candidate["verdict"] == "PROMOTE" and candidate["merge"], candidate["reasons"]
    shown = subprocess.run(
        ["git", "-C", str(cli.workspace / "harness_repo"), "show", f"main:{agent.file}"],
        capture_output=True,
        check=True,
    )
    assert agent.demand.strip().encode() in shown.stdout
    assert {path: path.read_bytes() for path in before} == before, "the original is untouched"
    assert result["spend"]["by_role"]["policy"]["calls"] == len(policy.calls)
    assert leaks(cli.folder, CANARIES.values()) == []
