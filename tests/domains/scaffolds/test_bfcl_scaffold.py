"""The harness for function calls: through the runner, with a scripted model."""

from __future__ import annotations

from pathlib import Path

from _scaffold_play import Play, shipped

from meta_agent.core.harness import HarnessSession
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.sandboxes import open_sandbox

TASKS = Path(__file__).parents[1] / "bfcl" / "tasks.jsonl"


def test_the_one_reply_is_handed_in_and_graded_in_parts() -> None:
    sandbox = open_sandbox("process", run="test-bfcl-scaffold")
    play = Play(open_domain(DomainOptions("bfcl", TASKS)), HarnessSession(sandbox, shipped("bfcl")))
    row, gateway = play("[shelf.query(filters=[])]")
    sandbox.close()
    assert (row.outcome, row.stop_reason, row.turns) == (False, "submitted", 1)
    assert row.outcome_detail["name"] == 1.0
    assert "shelf.query" in str(gateway.asked[0].messages[-1]["content"])
