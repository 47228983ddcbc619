"""An agent that knows nothing of us goes through the loop: an edit of its prompt is judged.

It stands on the anthropic SDK and streams. It has neither a network nor a key, and is answered by a
policy that speaks OpenAI's protocol. mini-swe-agent is in `tests/harness` and `tests/evolve`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, Cli, behind
from tests.acceptance._tasks import few
from tests.acceptance.brains import Configurer, Fix, ShellSolver
from tests.loopback import anthropic_server, openai_server

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(2400)]
EXAMPLES = Path(__file__).parents[2] / "examples" / "bring-your-own"
TEAM = ("analyst", "proposer", "reviewer", "librarian")


AGENT, FILE = "streaming-agent", "prompt.md"
BEFORE = "When the work is done, say so"
DEMAND = "Before you submit, run the example of the report again and mend what is wrong. "


def test_an_edit_of_its_prompt_goes_through_the_loop(
    tasks: Path, fixes: list[Fix], make_cli: Callable[..., Cli]
) -> None:
    cli, source = make_cli(AGENT), EXAMPLES / AGENT
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    image = cli(
        *("sandbox", "build", "--tag", f"{AGENT}:1"),
        *("--requirements", str(source / "requirements.txt")),
        ok=(0, 3, 5),
    )
    if image.returncode:
        pytest.skip(f"no image for {AGENT}: {image.stderr.strip()[-300:]}")
    cli.init("--harness", str(source), "--tasks", str(tasks))
    key = CANARIES["LOOPBACK_KEY"]
    with (
        openai_server(
            ShellSolver(fixes, first_right=0.0, mends=1.0), key=key, serial=False
        ) as policy,
        anthropic_server(Configurer(FILE, BEFORE, DEMAND), key=key, serial=False) as team,
    ):
        result = cli.evolve(
            *("--tasks", str(few(tasks, search=2, confirm=6, vault=1))),
            *("--harness", str(source), "--generations", "1", "--candidates", "1"),
            *("--policy", "openai/solver", "--meta-model", "anthropic/team"),
            *behind({"policy": policy, **dict.fromkeys(TEAM, team)}),
            *("--samples", "1", "--sandbox", "docker", "--max-usd", "20"),
        )
    (candidate,) = result["candidates"]
    assert candidate["verdict"] == "PROMOTE" and candidate["merge"], candidate["reasons"]
    shown = subprocess.run(
        ["git", "-C", str(cli.workspace / "harness_repo"), "show", f"main:{FILE}"],
        capture_output=True,
        check=True,
    )
    assert DEMAND.strip().encode() in shown.stdout
    assert {path: path.read_bytes() for path in before} == before, "the original is untouched"
    assert result["spend"]["by_role"]["policy"]["calls"] == len(policy.calls)
    assert leaks(cli.folder, CANARIES.values()) == []
