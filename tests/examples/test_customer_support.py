"""The example as its README has it: an empty folder, few lines, five commands, a finished run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.core.rollouts import RolloutStore
from tests.cli._command import meta_agent as meta_agent
from tests.examples._support_desk import desk
from tests.loopback import openai_server

EXAMPLE = Path(__file__).parents[2] / "examples/customer-support"
SAFE = ("--sandbox", "process")


def test_the_example_is_as_short_as_it_says() -> None:
    assert len((EXAMPLE / "grader.py").read_text().splitlines()) <= 15
    (block,) = (EXAMPLE / "README.md").read_text().split("```")[1::2][:1]
    assert len(block.strip().splitlines()) <= 5


@pytest.mark.slow
def test_from_an_empty_folder_to_a_finished_run(tmp_path: Path, meta_agent: Any) -> None:
    meta_agent("init", "--domain", "mine", cwd=tmp_path)
    for name in ("grader.py", "tasks.jsonl"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    own = ("--grade", "grader.py")
    checked = meta_agent("tasks", "check", "tasks.jsonl", *own, *SAFE, "--json", cwd=tmp_path)
    assert checked.document["ok"] and len(checked.document["tasks"]) == 40
    with openai_server(desk, serial=False) as url:
        ran = meta_agent(
            *("evolve", "--tasks", "tasks.jsonl", *own, *SAFE, "--allow-unsafe"),
            *("--policy", "openai/desk", "--base-url", f"policy={url}"),
            *("--generations", "1", "--candidates", "2", "--samples", "1", "--json"),
            cwd=tmp_path,
        )
    told = ran.document
    assert told["exit_reason"] == "done"
    root = tmp_path / "meta-agent-workspace"
    with Ledger.open(root / "ledger.sqlite") as ledger:
        shards = [step.outcome["shard"] for step in ledger.steps(kind="eval") if step.is_done]
    store = RolloutStore(root / "rollouts")
    rows = [row for shard in shards for row in store.read(shard["name"])]
    assert {row.error for row in rows} == {None}, "the grader graded every attempt"
    tools = {event.tool for row in rows for event in row.tool_events}
    assert tools >= {"look_up", "refund", "submit"}
    share = sum(row.clean for row in rows) / len(rows)
    assert 0.6 < share < 1.0, "it pays back what is over 30 days old, and that is wrong"
    assert {row.split for row in rows} <= {"search", "confirm", "vault"}, "nothing lies idle"
