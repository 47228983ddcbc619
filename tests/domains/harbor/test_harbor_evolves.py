"""A whole run over the ten Harbor tasks: read, proposed for, graded in containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import meta_agent
from meta_agent.core.ledger import Ledger
from meta_agent.core.rollouts import RolloutStore
from meta_agent.sandboxes import engine_status
from tests.domains.harbor._harbor_tasks import write_ten
from tests.loopback import Call, Say, openai_server

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]
if not engine_status().ready:
    pytest.skip("Docker is not here", allow_module_level=True)

UNABLE = ("perl-reverse", "shell-count")


MANUAL = "seq 700; echo 'The key is 4711.'; seq 700"
"""Longer than what the open harness shows of a result, with what counts in the middle."""


def worker(root: Path) -> Any:
    """Reads the manual, and solves a task if it saw the key: two it never can."""
    asked = {
        path.parent.name: path.read_text().split("-->")[-1].strip()
        for path in root.glob("*/instruction.md")
    }

    def brain(call: Call) -> Say:
        said = str(call.messages)
        (name,) = (name for name, words in asked.items() if words.splitlines()[0] in said)
        results = [str(one["content"]) for one in call.messages if one["role"] == "tool"]
        if not results:
            return Say(tool_calls=[("run", {"command": MANUAL})])
        if len(results) > 1 or name in UNABLE or "The key is 4711." not in results[0]:
            return Say("Done.")
        script = (root / name / "solution/solve.sh").read_text()
        return Say(tool_calls=[("run", {"command": script})])

    return brain


def test_a_run_over_task_folders_tries_an_edit_and_judges_it(tmp_path: Path) -> None:
    """The rules see that results are cut; whole ones make the difference in every task but two."""
    root = write_ten(tmp_path / "tasks")
    with openai_server(worker(root), serial=False) as url:
        result = meta_agent.optimize(
            tasks=root,
            domain="harbor",
            policy="openai/worker",
            base_urls={"policy": url},
            workspace=tmp_path / "ws",
            generations=1,
            candidates=1,
            samples=1,
            concurrency=2,
        )
    assert result.exit_reason == "done"
    with Ledger.open(tmp_path / "ws/ledger.sqlite", owner_lock=False) as ledger:
        shards = [step.outcome["shard"] for step in ledger.steps(kind="eval") if step.is_done]
    store = RolloutStore(tmp_path / "ws/rollouts")
    rows = [row for shard in shards for row in store.read(shard["name"])]
    assert {row.error for row in rows} == {None}, "no attempt was lost"
    (candidate,) = result.state.candidates.values()
    assert "OBSERVATION_CHARS grows from 4000" in str(candidate.hypothesis["statement"])
    assert candidate.verdict is not None and candidate.verdict["kind"] in (
        "PROMOTE",
        "INCONCLUSIVE",
    )
    start, *others = dict.fromkeys(row.harness_commit for row in rows)
    assert others, "the edit was rolled out"
    certain = [row for row in rows if row.task_key != "flaky"]
    for row in certain:
        can = row.harness_commit != start and row.task_key not in UNABLE
        assert row.outcome == can, (row.task_key, "what was done is what the verifier says")
