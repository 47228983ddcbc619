"""The seed harness for real repositories: through the runner, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import PlannedRollout, Rollout
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.domains.swe import RealSwe
from meta_agent.sandboxes import open_sandbox
from tests.domains.scaffolds._scaffold_play import Scripted, shipped

pytestmark = pytest.mark.slow

VIEW = "The sum looks wrong.\n\n```view shelf/core.py 1 8\n```"
EDIT = (
    "```edit shelf/core.py\n<<<<<<< old\n    return sum(prices[1:])\n"
    "=======\n    return sum(prices)\n>>>>>>> new\n```"
)
RUN = '```run\npython3 -c "from shelf.core import total; print(total([1, 2, 3]))"\n```'
SUBMIT = "```submit\n```"


@pytest.fixture(scope="module")
def session() -> Iterator[HarnessSession]:
    sandbox = open_sandbox("process", run="test-swe-harness")
    yield HarnessSession(sandbox, shipped("swe"))
    sandbox.close()


Roll = Callable[..., tuple[Rollout, Scripted]]


@pytest.fixture
def roll(session: HarnessSession, domain: RealSwe) -> Roll:
    def run(*script: Any) -> tuple[Rollout, Scripted]:
        gateway = Scripted(script)
        runner = Runner(domain, session, gateway, Stamp("r", "v", "c0ffee"), concurrency=1)
        (row,) = runner.run([PlannedRollout(domain.tasks("search")[0], 0, 7, "g0")])
        return row, gateway

    return run


def call(name: str, call_id: str = "c1", **arguments: Any) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"id": call_id, "type": "function", "function": function}]


def test_a_model_that_writes_blocks_solves_the_task(roll: Roll, session: HarnessSession) -> None:
    row, gateway = roll(VIEW, EDIT, RUN, SUBMIT)
    assert (row.outcome, row.flags, row.stop_reason, row.error) == (True, [], "submitted", None)
    assert [event.tool for event in row.tool_events] == ["view", "edit", "run", "submit"]
    assert all(event.ok for event in row.tool_events)
    assert row.tool_events[2].result.startswith("6\n")
    assert gateway.asked[0].tools and len(gateway.asked[0].tools) == 6
    assert session.reward([row]) == [{"solved": 1.0, "submitted": 1.0, "conduct": 0.0}]


def test_a_model_with_native_calls_solves_the_task(roll: Roll) -> None:
    edit = call("edit", path="shelf/core.py", old="sum(prices[1:])", new="sum(prices)")
    row, gateway = roll(call("view", path="shelf/core.py"), edit, call("submit"))
    assert (row.outcome, row.flags) == (True, [])
    answers = [m for m in gateway.asked[-1].messages if m["role"] == "tool"]
    assert [answer["tool_call_id"] for answer in answers] == ["c1", "c1"]


def test_a_model_that_edits_the_tests_is_not_clean(roll: Roll, session: HarnessSession) -> None:
    cheat = "```run\necho 'def test_total(): pass' > tests/test_core.py\n```"
    row, _ = roll(cheat, SUBMIT)
    assert (row.outcome, row.clean, row.flags) == (False, False, ["tamper:tests"])
    assert session.reward([row])[0]["conduct"] == 1.0


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("I think it is fixed.", "No tool was called"),
        ("```edit shelf/core.py\nno marks\n```", "edit: an edit needs a path and the marks"),
        ([{"id": "c", "function": {"name": "view", "arguments": "{"}}], "not a JSON object"),
        ([{"id": "c", "function": {"name": "fly", "arguments": "{}"}}], "no tool 'fly'"),
    ],
)
def test_a_reply_that_cannot_be_carried_out_is_answered(roll: Roll, said: Any, answer: str) -> None:
    row, gateway = roll(said, SUBMIT)
    assert row.error is None
    assert answer in str(gateway.asked[1].messages[-1]["content"])


@pytest.mark.parametrize(
    ("said", "tool"),
    [
        ("```bash\nls\n```", "run"),
        ("````view setup.cfg\n````", "view"),
        ('<tool_call>\n{"name": "view", "arguments": {"path": "."}}\n</tool_call>', "view"),
        ("```python\nprint(1)\n```\nthen\n```search .\ntotal\n```", "search"),
    ],
)
def test_calls_are_found_in_text_where_a_server_has_no_tools(
    roll: Roll, said: str, tool: str
) -> None:
    row, _ = roll(said, SUBMIT)
    assert next(event.tool for event in row.tool_events) == tool
    assert row.stop_reason == "submitted"


def test_handing_in_nothing_is_asked_about_once(roll: Roll) -> None:
    row, gateway = roll(SUBMIT)
    assert (row.stop_reason, row.turns, row.outcome) == ("submitted", 2, False)
    assert "Nothing was changed yet" in str(gateway.asked[1].messages[-1]["content"])


def test_an_empty_reply_is_answered_and_not_sent_back_empty(roll: Roll) -> None:
    row, gateway = roll("", EDIT, SUBMIT)
    assert row.outcome is True
    assert all(str(m["content"]).strip() for m in gateway.asked[-1].messages)


def test_calls_of_one_reply_that_come_after_the_end_are_not_carried_out(roll: Roll) -> None:
    edit = call("edit", "a", path="shelf/core.py", old="sum(prices[1:])", new="sum(prices)")
    row, _ = roll([*edit, *call("submit", "b"), *call("run", "c", command="rm -r shelf")])
    assert [event.tool for event in row.tool_events] == ["edit", "submit"]
    assert row.outcome is True


def test_turns_end_with_a_warning_and_the_work_is_graded(roll: Roll) -> None:
    row, gateway = roll(EDIT, "```run\ntrue\n```")
    assert (row.stop_reason, row.turns, row.outcome) == ("returned", 30, True)
    assert "turns left" in str(gateway.asked[-1].messages[-1]["content"])


def test_long_output_is_cut_and_old_output_leaves_the_context(roll: Roll) -> None:
    _, gateway = roll("```run\nseq 5000\n```")
    last = gateway.asked[-1].messages
    assert sum(len(str(message["content"])) for message in last) < 80_000
    assert any(message["content"] == "[older output left out]" for message in last)
    assert "left out" not in str(last[-1]["content"]).splitlines()[0]


def test_the_harness_keeps_its_contract(session: HarnessSession, roll: Roll) -> None:
    row, _ = roll(EDIT, SUBMIT)
    tasks = [{"key": "shelf-1", "view": {"issue": "x"}}]
    results = session.check([row], tasks)
    assert results and all(result.ok for result in results), results
    values = {m.name: m for m in session.measure([row])}
    assert all(measurement.failure is None for measurement in values.values())
    assert values["verification"].values == {"no_edit_share": 0.0, "verified_share": 0.0}
    assert session.order(tasks, {}) == ["shelf-1"]
    assert session.recipe.num_generations == 8
