"""Agents that know nothing of us, unmodified, on a real task with a sealed grader, in Docker.

mini-swe-agent (litellm, OpenAI's protocol) and a small agent over the anthropic SDK (streaming).
Their images are made from wheels of the package index and kept by content.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from meta_agent.core.harness import open_session
from meta_agent.core.protocols import GenerateRequest, HarnessTree, PlannedRollout, Rollout
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.domains.swe import RealSwe, load_tasks_domain

from ._agents import Policy, opener
from ._examples import need_example

pytestmark = [pytest.mark.docker, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
LOOK = "grep -n 'def total' -A 6 shelf/core.py; ls -a; git log --oneline"
FIX = "sed -i 's/sum(prices\\[1:\\])/sum(prices)/' shelf/core.py"
SEE = "python3 -c 'from shelf.core import total; print(total([1, 2, 3]))'; git diff --stat"
END = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
OUT = "curl -sS -m 3 http://1.1.1.1 || getent hosts example.org || echo nothing-outside"


@pytest.fixture(scope="module")
def shelf_tasks() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "shelf_tasks", ROOT / "tests" / "domains" / "swe" / "conftest.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def domain(shelf_tasks: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> RealSwe:
    folder = tmp_path_factory.mktemp("shelf")
    path = shelf_tasks.Shelf(folder).write(python="python3")
    return load_tasks_domain(path, sandbox="docker")


def example(name: str, **changes: str) -> HarnessTree:
    """An example as a harness, on an image that is made where it is missing."""
    folder = need_example(name)
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return HarnessTree("c0ffee", "7ree", {**files, **{k: v.encode() for k, v in changes.items()}})


def tool(name: str, command: str) -> Callable[[GenerateRequest], Any]:
    def call(request: GenerateRequest) -> Any:
        function = {"name": name, "arguments": json.dumps({"command": command})}
        return [{"id": f"call_{request.turn}", "type": "function", "function": function}]

    return call


def solve(domain: RealSwe, tree: HarnessTree, policy: Policy) -> Rollout:
    plan = [PlannedRollout(domain.tasks("search")[0], 0, 7, "g")]
    with open_session(tree, opener("docker")) as session:
        (row,) = Runner(domain, session, policy, Stamp("r", "v", "c0ffee"), concurrency=1).run(plan)
    return row


def printed(row: Rollout) -> str:
    return "\n".join(str(m["content"]) for m in row.messages if m["role"] == "tool")


def test_mini_swe_agent_unmodified_solves_a_task(domain: RealSwe) -> None:
    commands = [LOOK, OUT, FIX, SEE, END]
    policy = Policy(*[tool("bash", command) for command in commands])
    row = solve(domain, example("mini-swe-agent"), policy)
    assert (row.outcome, row.flags, row.error) == (True, [], None), row.tool_events
    assert (row.stop_reason, row.turns) == ("submitted", 5)
    assert "nothing-outside" in printed(row) and "6\n" in printed(row)
    assert "total([1, 2, 3]) gives 5" in str(row.messages[1]["content"])
    assert row.cost["tokens"] == 600
    assert policy.asked[0].tools and policy.asked[0].tools[0]["function"]["name"] == "bash"
    assert domain.regrade(row.task_key, row.verifier_inputs).success


def test_an_agent_that_streams_anthropic_messages_solves_a_task(domain: RealSwe) -> None:
    commands = [LOOK, OUT, FIX, SEE]
    policy = Policy(*[tool("shell", command) for command in commands], "The sum is whole again.")
    row = solve(domain, example("streaming-agent"), policy)
    assert (row.outcome, row.flags, row.error) == (True, [], None), row.tool_events
    assert (row.stop_reason, row.turns) == ("submitted", 5)
    assert "nothing-outside" in printed(row)
    # Each request extends the last one: the conversation is one exact prefix of the next.
    for before, after in zip(policy.asked, policy.asked[1:], strict=False):
        assert list(after.messages[: len(before.messages)]) == list(before.messages)


def test_tests_that_an_agent_edits_in_its_copy_are_flagged(domain: RealSwe) -> None:
    cheat = tool("shell", "echo 'def test_total(): pass' > tests/test_core.py")
    row = solve(domain, example("streaming-agent"), Policy(cheat, "Done."))
    assert (row.outcome, row.clean, row.flags) == (False, False, ["tamper:tests"])


@pytest.mark.parametrize("name", ["mini-swe-agent", "streaming-agent"])
def test_the_check_passes_before_money_is_spent(name: str) -> None:
    with open_session(example(name), opener("docker")) as session:
        rows = session.check([], [])
    assert rows and all(row.ok for row in rows), rows


def test_the_check_finds_a_broken_configuration() -> None:
    tree = example("mini-swe-agent", **{"mini.yaml": "agent: [not, a, mapping\n"})
    with open_session(tree, opener("docker")) as session:
        broken = [row for row in session.check([], []) if not row.ok]
    assert broken[0].name == "command asks its model" and "yaml" in broken[0].detail.lower()
