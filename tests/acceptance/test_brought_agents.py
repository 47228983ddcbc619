"""An agent that knows nothing of us goes through the loop: an edit of its prompt is judged.

It stands on the anthropic SDK and streams. It has neither a network nor a key, and is answered by a
policy that speaks OpenAI's protocol. It mends files, which a user's grader reads: how `swe` grades
what it did is in `tests/harness`, as is mini-swe-agent.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, Cli, behind
from tests.acceptance.brains import Configurer, Fix, ShellSolver
from tests.loopback import anthropic_server, openai_server

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(2400)]
EXAMPLES = Path(__file__).parents[2] / "examples" / "bring-your-own"
TEAM = ("analyst", "proposer", "reviewer", "librarian")


AGENT, FILE = "streaming-agent", "prompt.md"
BEFORE = "When the work is done, say so"
DEMAND = "Before you submit, run the example of the report again and mend what is wrong. "


GRADER = """
def files(task):
    return {task["file"]: f"def {task['name']}(n):\\n{task['old']}"}

def grade(task, answer):
    return task["new"] in answer.files.get(task["file"], "")
"""
SOUND = ("n + 1", "2 * n", "n * n", "n - 1", "3 * n", "n % 2", "n ** 3", "n // 2", "abs(n)", "-n")
FIXES = tuple(
    Fix(
        f"step_{number}",
        f"steps/step_{number}.py",
        "    return 0 * n\n",
        f"    return {sound}\n",
        f"`step_{number}` gives 0, whatever it is asked. It should give {sound}.",
    )
    for number, sound in enumerate(SOUND)
)
SPLITS = (*["search"] * 4, *["confirm"] * 5, "vault")
"""The fewest by which an edit can be proven: the start fails at each of five tasks of the exam."""


def rows() -> str:
    """The lines of a task file: a file with a fault each."""
    return "".join(
        json.dumps({**vars(fix), "prompt": fix.issue, "split": split}) + "\n"
        for fix, split in zip(FIXES, SPLITS, strict=True)
    )


def test_an_edit_of_its_prompt_goes_through_the_loop(make_cli: Callable[..., Cli]) -> None:
    cli, source = make_cli(AGENT), EXAMPLES / AGENT
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    image = cli(
        *("sandbox", "build", "--tag", f"{AGENT}:1"),
        *("--requirements", str(source / "requirements.txt")),
        ok=(0, 3, 5),
    )
    if image.returncode:
        pytest.skip(f"no image for {AGENT}: {image.stderr.strip()[-300:]}")
    (cli.folder / "tasks.jsonl").write_text(rows(), encoding="utf-8")
    (cli.folder / "grader.py").write_text(GRADER, encoding="utf-8")
    graded = ("--tasks", "tasks.jsonl", "--grade", "grader.py", "--harness", str(source))
    cli.init(*graded, domain="graded")
    key = CANARIES["LOOPBACK_KEY"]
    with (
        openai_server(
            ShellSolver(FIXES, first_right=0.0, mends=1.0), key=key, serial=False
        ) as policy,
        anthropic_server(Configurer(FILE, BEFORE, DEMAND), key=key, serial=False) as team,
    ):
        result = cli.evolve(
            *graded,
            *("--generations", "1", "--candidates", "1"),
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
