"""What fails in a rollout, and whose failure it is: the policy's, or the machines'."""

from __future__ import annotations

import pytest

from meta_agent.core.errors import BudgetError, ProviderError, SandboxError, TrainingError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import GenerateReply, GenerateRequest, PlannedRollout, RolloutFailure

from ._laboratory import (
    BOTH,
    LabDomain,
    ScriptGateway,
    plan,
    run_agent,
    runner,
    script,
    session,
    task,
    tree,
)

POLICY_FAULTS = {
    "raises": ("raise ValueError('my bug')", "ValueError: my bug"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "not json": ("await tools.call('say', text=object())", "plain JSON"),
    "nan": ("await tools.call('say', x=float('nan'))", "plain JSON"),
    "no role": ("await model.chat([{'content': 'x'}])", "a dict with a role"),
    "call of text": (
        "await model.chat([{'role': 'assistant', 'tool_calls': ['x']}])",
        "give each tool call a string id",
    ),
    "no messages": ("await model.chat([])", "at least one message"),
    "zero tokens": (
        "await model.chat([{'role': 'user', 'content': 'x'}], max_tokens=0)",
        "max_tok",
    ),
    "event loop": ("import asyncio; await asyncio.sleep(1)", "no running event loop"),
    "foreign await": (
        "import types\n    await types.coroutine(lambda: (yield {'cid': 9}))()",
        "may await only",
    ),
}


@pytest.mark.parametrize("fault", POLICY_FAULTS)
def test_code_of_the_harness_that_fails_is_a_policy_failure(fault: str) -> None:
    code, told = POLICY_FAULTS[fault]
    agent = f"async def run(task, model, tools):\n    {code}\n"
    (row,) = run_agent(agent, "hm")
    assert row.error is not None
    assert (row.error.kind, row.outcome, row.stop_reason) == ("policy", False, "error")
    assert told in row.error.detail
    assert row.verifier_inputs == {"submitted": ""}


def test_one_agents_failure_leaves_the_others_alone() -> None:
    agent = """
async def run(task, model, tools):
    if task.key == "t1":
        raise RuntimeError("only me")
    await tools.call("submit", text="yes")
"""
    rows = run_agent(agent, count=3)
    assert [row.outcome for row in rows] == [True, False, True]


def test_an_agent_that_computes_forever_costs_only_its_own_rollout() -> None:
    agent = """
async def run(task, model, tools):
    while task.key == "t0":
        pass
    await tools.call("submit", text="yes")
"""
    with session(tree(agent=agent)) as held:
        impatient = Impatient(held, step_limit_sec=0.3)
        rows = runner(impatient, ScriptGateway(script("hm"))).run(plan(2))  # type: ignore[arg-type]
    assert rows[0].error is not None
    assert "AgentHung" in rows[0].error.detail
    assert (rows[0].outcome, rows[1].outcome) == (False, True)


class Impatient:
    """A session with other limits than the runner asks for."""

    def __init__(self, held: HarnessSession, **limits: float) -> None:
        self._held, self._limits = held, limits

    def rollout(self, items: object, serve: object, **options: object) -> None:
        self._held.rollout(items, serve, **{**options, **self._limits})  # type: ignore[arg-type]


@BOTH
def test_infrastructure_is_never_scored(lab: HarnessSession, lock_step: bool) -> None:
    broken = PlannedRollout(task("t0", broken=True), 0, 7, "g0")
    said = {"t1": "boom now", "t2": "submit yes", "t3": "submit yes"}

    def policy(request: GenerateRequest) -> GenerateReply | str:
        if request.task_key == "t3":
            failure = RolloutFailure("infra", "503 from the server")
            return GenerateReply("", "error", 0, 0, usd=None, failure=failure)
        return said[request.task_key]

    domain = LabDomain()
    gateway = ScriptGateway(policy, lock_step=lock_step)
    rows = runner(lab, gateway, domain).run([broken, *plan(4)[1:]])
    assert [row.outcome for row in rows] == [None, None, True, None]
    details = [row.error.detail if row.error else "" for row in rows]
    assert [word in d for word, d in zip(["image", "gone", "", "503"], details, strict=True)]
    assert all(row.error is None or row.error.kind == "infra" for row in rows)
    assert "usd" not in rows[3].cost, "an unknown price is not 0"
    assert domain.opened == domain.closed == 3


@pytest.mark.parametrize(
    ("kind", "blamed"), [("oom", "policy"), ("timeout", "policy"), ("engine", "infra")]
)
def test_a_task_sandbox_that_the_policy_used_up_is_its_own_failure(
    lab: HarnessSession, kind: str, blamed: str
) -> None:
    gateway = ScriptGateway(script(f"devour {kind}"), lock_step=True)
    (row,) = runner(lab, gateway).run(plan(1))
    assert row.error and row.error.kind == blamed
    assert row.outcome is (False if blamed == "policy" else None)


@pytest.mark.parametrize("error", [ProviderError("down"), TrainingError("child died")])
@BOTH
def test_a_gateway_that_fails_as_a_whole_leaves_typed_rows(
    lab: HarnessSession, error: Exception, lock_step: bool
) -> None:
    def policy(_: GenerateRequest) -> str:
        raise error

    rows = runner(lab, ScriptGateway(policy, lock_step=lock_step)).run(plan(3))
    assert [row.error.kind for row in rows if row.error] == ["infra"] * 3
    assert [row.outcome for row in rows] == [None] * 3


@pytest.mark.parametrize("error", [BudgetError("1.00 USD spent"), KeyError("our bug")])
@BOTH
def test_what_must_stop_the_run_does_and_the_session_survives(
    lab: HarnessSession, error: Exception, lock_step: bool
) -> None:
    def policy(request: GenerateRequest) -> str:
        if request.turn == 1:
            raise error
        return "say hi"

    domain = LabDomain()
    with pytest.raises(type(error)):
        runner(lab, ScriptGateway(policy, lock_step=lock_step), domain).run(plan(3))
    assert domain.opened == domain.closed
    rows = runner(lab, ScriptGateway(script("submit yes"))).run(plan(2))
    assert all(row.clean for row in rows)


def test_a_grader_that_fails_is_told_apart(lab: HarnessSession) -> None:
    (row,) = runner(lab, ScriptGateway(script("submit ungradable"))).run(plan(1))
    assert row.error is not None
    assert (row.error.kind, row.outcome) == ("verifier", None)


@BOTH
def test_a_worker_that_dies_leaves_infrastructure_rows(lock_step: bool) -> None:
    agent = """
import os
async def run(task, model, tools):
    await model.chat([{"role": "user", "content": "x"}])
    if task.key == "t2":
        os._exit(1)
    await tools.call("submit", text="yes")
"""
    rows = run_agent(agent, "hm", count=3, lock_step=lock_step)
    assert len(rows) == 3
    assert rows[2].outcome is None
    assert rows[2].error is not None
    assert rows[2].error.kind == "infra"
    assert all(row.outcome is None or row.clean for row in rows)


FORGERIES = {
    "unknown rollout": "{'cid': 77, 'kind': 'end', 'err': None}",
    "unknown kind": "{'cid': 0, 'kind': 'gift'}",
    "bad base": "{'cid': 0, 'kind': 'model', 'base': 9, 'new': [], 'max': None}",
    "bad message": "{'cid': 0, 'kind': 'model', 'base': 0, 'new': [3], 'max': None}",
    "bad call": (
        "{'cid': 0, 'kind': 'model', 'base': 0, 'max': None, "
        "'new': [{'role': 'assistant', 'tool_calls': [{'function': 'x'}]}]}"
    ),
    "bad id": (
        "{'cid': 0, 'kind': 'model', 'base': 0, 'max': None, "
        "'new': [{'role': 'tool', 'tool_call_id': ['x']}]}"
    ),
    "bad tool": "{'cid': 0, 'kind': 'tool', 'tool': 3, 'args': {}}",
    "bad end": "{'cid': 0, 'kind': 'end', 'err': 'x'}",
    "opened again": "{'cid': 0, 'kind': 'open'}",
    "asks before it opens": "{'cid': 1, 'kind': 'tool', 'tool': 'say', 'args': {}}",
    "twelve thousand calls": "*[{'cid': 0, 'kind': 'open'}] * 12_000",
    "deep argument": "{'cid': 0, 'kind': 'tool', 'tool': 'say', 'args': {'x': deep(400)}}",
    "long number": "{'cid': 0, 'kind': 'tool', 'tool': 'say', 'args': {'x': 10**400}}",
    "many elements": "{'cid': 0, 'kind': 'tool', 'tool': 'say', 'args': {'x': [[]] * 500_000}}",
    "large": "{'cid': 0, 'kind': 'tool', 'tool': 'say', 'args': {'x': 'x' * (9 << 20)}}",
}
# Written straight to the pipe, past the worker's own check of what it sends.
FRAMES = {
    "nan": '{"cid": 0, "kind": "tool", "tool": "say", "args": {"x": NaN}}',
    "infinity": '{"cid": 0, "kind": "tool", "tool": "say", "args": {"x": 1e999}}',
    "surrogate": '{"cid": 0, "kind": "tool", "tool": "say", "args": {"x": "\\ud800"}}',
}
FORGER = """
import gc
def deep(n):
    value = []
    for _ in range(n):
        value = [value]
    return value
async def run(task, model, tools):
    (scheduler,) = [x for x in gc.get_objects() if type(x).__name__ == "Scheduler"]
    channel = scheduler.channel
    FORGE
    await model.chat([{"role": "user", "content": "x"}])
"""


def candidates_fault(forge: str, lock_step: bool) -> None:
    agent = FORGER.replace("FORGE", forge)
    # With one at a time the second of two rollouts is not yet open when the first one forges.
    rows = run_agent(agent, "hm", count=2, lock_step=lock_step, concurrency=1)
    assert [row.outcome for row in rows] == [False, False]
    for row in rows:
        assert row.error and row.error.kind == "policy"
        assert "protocol" in row.error.detail


@pytest.mark.parametrize("forgery", FORGERIES)
@BOTH
def test_forged_calls_are_the_candidates_failure(forgery: str, lock_step: bool) -> None:
    if lock_step and forgery == "asks before it opens":
        forgery = "opened again"  # in lock-step all are open from the start
    candidates_fault(f"scheduler.frame += [{FORGERIES[forgery]}]", lock_step)


@pytest.mark.parametrize("frame", FRAMES)
@BOTH
def test_values_that_no_record_can_hold_are_the_candidates_failure(
    frame: str, lock_step: bool
) -> None:
    body = '\'{"id": %d, "calls": [\' % channel._id + ' + repr(FRAMES[frame]) + " + ']}'"
    write = "channel._pipe._write(memoryview(len(body).to_bytes(4, 'little') + body))"
    candidates_fault(f"body = ({body}).encode(); {write}", lock_step)


def test_a_dead_session_gives_rows_not_an_exception() -> None:
    with session() as held:
        held.sandbox.close()
        rows = runner(held, ScriptGateway(script("submit yes"))).run(plan(2))
    assert [row.outcome for row in rows] == [None, None]
    with pytest.raises(SandboxError):
        held.keep([])
