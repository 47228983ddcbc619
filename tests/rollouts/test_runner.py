"""The runner against the real process sandbox, with a policy that the test scripts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import (
    Ceilings,
    GenerateReply,
    GenerateRequest,
    PlannedRollout,
    Rollout,
    ToolResult,
)
from meta_agent.readers.evidence import exchanges
from meta_agent.sandboxes import engine_status

from ._laboratory import (
    BOTH,
    Echo,
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


@BOTH
def test_every_planned_rollout_has_one_row_in_plan_order(
    lab: HarnessSession, lock_step: bool
) -> None:
    gateway = ScriptGateway(script("say hi", "submit yes"), lock_step=lock_step)
    planned = plan(40)
    domain = LabDomain()
    rows = runner(lab, gateway, domain).run(planned)
    assert [(r.task_key, r.sample_idx, r.group_id) for r in rows] == [
        (p.task.key, p.sample_idx, p.group_id) for p in planned
    ]
    assert all(row.clean and row.stop_reason == "submitted" and row.turns == 2 for row in rows)
    assert domain.opened == domain.closed == 40
    assert len(gateway.finished) == len(set(gateway.finished)) == 40


@BOTH
def test_a_row_tells_the_whole_story(lab: HarnessSession, lock_step: bool) -> None:
    gateway = ScriptGateway(script("say hi", "log", "submit yes"), lock_step=lock_step)
    (row,) = runner(lab, gateway).run(plan(1))
    assert row.messages == [
        {"role": "user", "content": "q t0"},
        {"role": "assistant", "content": "say hi"},
        {"role": "tool", "content": "heard hi"},
        {"role": "assistant", "content": "log"},
        {"role": "tool", "content": "the fix"},
        {"role": "assistant", "content": "submit yes"},
    ]
    assert [(e.turn, e.tool, e.result) for e in row.tool_events] == [
        (0, "say", "heard hi"),
        (1, "log", "the fix"),
        (2, "submit", "thanks"),
    ]
    assert row.outcome is True
    assert row.flags == ["leak:log"]
    assert not row.clean
    assert row.verifier_inputs == {"submitted": "yes"}
    assert row.tokens is not None
    assert row.tokens.completion_ids == [2, 3]
    assert row.cost == {"tokens": 36, "prompt_tokens": 30, "completion_tokens": 6, "usd": 0.0}
    assert set(row.timings) == {"wall", "model", "tools", "grade"}
    assert (row.run, row.version, row.harness_commit) == ("r1", "v1", "c0ffee")
    assert (row.policy, row.evaluator_hash, row.domain) == ("script@1", "eva1", "lab")


@BOTH
def test_the_policy_is_asked_as_the_evaluator_says(lab: HarnessSession, lock_step: bool) -> None:
    gateway = ScriptGateway(script("submit yes"), lock_step=lock_step)
    runner(lab, gateway).run(plan(1))
    ((request,),) = gateway.batches
    assert (request.temperature, request.top_p) == (0.7, 0.9)
    assert (request.max_tokens, request.max_context_tokens) == (64, 1000)
    assert (request.task_key, request.sample_idx, request.seed, request.turn) == ("t0", 0, 7, 0)
    runner(lab, gateway).run(plan(1), temperature=1.3, top_p=0.5)
    ((trained,),) = gateway.batches[1:]
    assert (trained.temperature, trained.top_p) == (1.3, 0.5)


def test_lock_step_batches_all_waiting_rollouts_in_index_order(lab: HarnessSession) -> None:
    def policy(request: GenerateRequest) -> str:
        turns = int(request.task_key[1:]) % 3
        return "submit yes" if request.turn == turns else "say more"

    gateway = ScriptGateway(policy)
    runner(lab, gateway).run(plan(6))
    asked = [[request.task_key for request in batch] for batch in gateway.batches]
    assert asked == [["t0", "t1", "t2", "t3", "t4", "t5"], ["t1", "t2", "t4", "t5"], ["t2", "t5"]]


def test_lock_step_is_the_same_twice(lab: HarnessSession) -> None:
    def rows() -> list[Rollout]:
        gateway = ScriptGateway(lambda r: f"say {r.seed + r.turn}" if r.turn < 3 else "submit yes")
        found = runner(lab, gateway).run(plan(16))
        for row in found:
            row.timings = {}
        return found

    assert rows() == rows()


@pytest.mark.docker
def test_a_container_gives_the_same_rows_as_a_process() -> None:
    status = engine_status()
    if not status.ready:
        pytest.skip(f"no Docker sandbox: {status.problem}")

    def rows(backend: str) -> list[Rollout]:
        with session(backend=backend) as held:
            gateway = ScriptGateway(lambda r: "say hi" if r.turn < r.sample_idx else "submit yes")
            found = runner(held, gateway).run(plan(12))
        for row in found:
            row.timings = {}
        return found

    assert rows("docker") == rows("process")


def test_batch_size_bounds_a_lock_step_batch(lab: HarnessSession) -> None:
    gateway = ScriptGateway(script("submit yes"))
    rows = runner(lab, gateway).run(plan(7), batch_size=3)
    assert [len(batch) for batch in gateway.batches] == [3, 3, 1]
    assert len(rows) == 7


def test_free_mode_bounds_live_environments(lab: HarnessSession) -> None:
    domain = LabDomain()
    seen = []

    def policy(request: GenerateRequest) -> str:
        seen.append(domain.opened - domain.closed)
        time.sleep(0.002)
        return "submit yes" if request.turn else "say hi"

    gateway = ScriptGateway(policy, lock_step=False)
    rows = runner(lab, gateway, domain, concurrency=4).run(plan(24))
    assert all(row.clean for row in rows)
    assert 1 < max(seen) <= 4


def test_free_mode_answers_the_quick_while_the_slow_wait(lab: HarnessSession) -> None:
    quick_done = threading.Event()

    def policy(request: GenerateRequest) -> str:
        if request.task_key == "t0":
            assert quick_done.wait(20), "the slow rollout blocked the quick one"
        elif request.turn == 2:
            quick_done.set()
        return "submit yes" if request.turn == 2 else "say hi"

    rows = runner(lab, ScriptGateway(policy, lock_step=False)).run(plan(2))
    assert [row.turns for row in rows] == [3, 3]


# --- ceilings --------------------------------------------------------------------------------


@BOTH
def test_the_turn_ceiling_is_the_hosts(lab: HarnessSession, lock_step: bool) -> None:
    gateway = ScriptGateway(script("say more"), lock_step=lock_step)
    (row,) = runner(lab, gateway, LabDomain(Ceilings(3, 64, 1000, 60.0))).run(plan(1))
    assert (row.stop_reason, row.turns, row.outcome) == ("turn_limit", 3, False)
    assert row.messages[-1] == {"role": "assistant", "content": "say more"}, (
        "what was seen, no more"
    )


SHORT = Ceilings(1000, 64, 1000, 0.12)


ROOMY = Ceilings(1000, 64, 1000, 1.2)  # for all but the model, also on a machine that is busy


def slow(request: GenerateRequest, seconds: float = 0.05) -> str:
    time.sleep(seconds)
    return "submit yes" if request.turn == 5 else "say more"


def slower(request: GenerateRequest) -> str:
    return slow(request, seconds=0.25)


def test_the_wall_ceiling_ends_a_rollout(lab: HarnessSession) -> None:
    gateway = ScriptGateway(slow, lock_step=False)
    (row,) = runner(lab, gateway, LabDomain(SHORT)).run(plan(1))
    assert row.stop_reason == "wall_limit"
    assert row.outcome is False


def test_in_lock_step_the_models_time_is_the_machines(lab: HarnessSession) -> None:
    (row,) = runner(lab, ScriptGateway(slower), LabDomain(ROOMY)).run(plan(1))
    assert row.clean and row.timings["model"] > ROOMY.wall_sec


class Patient(ScriptGateway):
    patience_sec = 60.0


def test_the_time_of_engines_of_our_own_is_the_machines(
    lab: HarnessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.core.rollouts.runner.GRACE_SEC", 0.0)
    gateway = Patient(slower, lock_step=False)
    rows = runner(lab, gateway, LabDomain(ROOMY)).run(plan(3))
    assert all(row.clean and row.timings["model"] > ROOMY.wall_sec for row in rows)


def test_in_lock_step_all_other_time_counts(
    lab: HarnessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Echo, "call", lambda *_: time.sleep(0.05) or ToolResult("heard"))
    gateway = ScriptGateway(script("say more"))
    (row,) = runner(lab, gateway, LabDomain(SHORT)).run(plan(1))
    assert (row.stop_reason, row.outcome) == ("wall_limit", False)


def test_a_full_context_ends_a_rollout(lab: HarnessSession) -> None:
    def policy(request: GenerateRequest) -> GenerateReply | str:
        return GenerateReply("", "context", 1000, 0) if request.turn == 1 else "say hi"

    (row,) = runner(lab, ScriptGateway(policy)).run(plan(1))
    assert (row.stop_reason, row.turns, row.outcome) == ("token_limit", 1, False)


def test_a_harness_may_only_go_below_the_token_ceiling() -> None:
    agent = """
async def run(task, model, tools):
    for limit in (5, 10_000):
        await model.chat([{"role": "user", "content": "x"}], max_tokens=limit)
"""
    with session(tree(agent=agent)) as held:
        gateway = ScriptGateway(script("hm"))
        runner(held, gateway).run(plan(1))
    assert [batch[0].max_tokens for batch in gateway.batches] == [5, 64]


def test_a_reply_cut_off_before_the_agent_gave_up_is_told_apart() -> None:
    agent = """
async def run(task, model, tools):
    await model.chat([{"role": "user", "content": "x"}])
"""
    with session(tree(agent=agent)) as held:
        cut = ScriptGateway(lambda _: GenerateReply("mumble", "length", 1, 64))
        whole = ScriptGateway(script("hm"))
        rows = [runner(held, gateway).run(plan(1))[0] for gateway in (cut, whole)]
    assert [row.stop_reason for row in rows] == ["length", "returned"]


def test_nothing_is_asked_after_the_task_is_done() -> None:
    agent = """
async def run(task, model, tools):
    await tools.call("submit", text="yes")
    await tools.call("submit", text="no")
    await model.chat([{"role": "user", "content": "x"}])
"""
    (row,) = run_agent(agent, "hm")
    assert (row.stop_reason, row.outcome, row.turns) == ("submitted", True, 0)
    assert len(row.tool_events) == 1


# --- message traffic ---------------------------------------------------------------------------

EDITS = {
    "appends": ("messages.append({'role': 'user', 'content': 'b'})", ["a", "r0", "b"]),
    "rewrites in place": ("messages[0]['content'] = 'z'", ["z", "r0"]),
    "drops history": ("messages[:] = [{'role': 'user', 'content': 'c'}]", ["c"]),
    "forgets the reply": ("messages.pop()", ["a"]),
    "puts words in the model's mouth": ("messages[-1]['content'] = 'lie'", ["a", "lie"]),
    "extra keys": ("messages.append({'role': 'user', 'content': 'b', 'name': 'n'})", None),
}


@pytest.mark.parametrize("edit", EDITS)
def test_the_policy_sees_exactly_what_the_agent_passed(edit: str) -> None:
    code, expected = EDITS[edit]
    agent = f"""
async def run(task, model, tools):
    messages = [{{"role": "user", "content": "a"}}]
    reply = await model.chat(messages)
    messages.append({{"role": "assistant", "content": reply.content}})
    {code}
    await model.chat(messages)
"""
    with session(tree(agent=agent)) as held:
        gateway = ScriptGateway(lambda request: f"r{request.turn}")
        (row,) = runner(held, gateway).run(plan(1))
    seen = list(gateway.batches[1][0].messages)
    assert row.messages == [*seen, {"role": "assistant", "content": "r1"}]
    if expected is None:
        assert seen[-1] == {"role": "user", "content": "b", "name": "n"}
    else:
        assert [message["content"] for message in seen] == expected


def test_tool_calls_of_a_reply_come_back_in_the_next_request() -> None:
    agent = """
async def run(task, model, tools):
    schema = [{"type": "function", "function": {"name": "say"}}]
    messages = [{"role": "user", "content": "a"}]
    reply = await model.chat(messages, tools=schema)
    assert reply.tool_calls[0]["id"] == "x1", reply
    messages += [reply.message, {"role": "tool", "tool_call_id": "x1", "content": "ok"}]
    await model.chat(messages)
"""
    call = {"id": "x1", "type": "function", "function": {"name": "say", "arguments": "{}"}}
    with session(tree(agent=agent)) as held:
        gateway = ScriptGateway(lambda _: GenerateReply("", "tool_calls", 1, 1, tool_calls=[call]))
        (row,) = runner(held, gateway).run(plan(1))
    assert row.error is None
    first, second = gateway.batches[0][0], gateway.batches[1][0]
    assert (first.tools or [])[0]["function"] == {"name": "say"}
    assert second.tools is None
    assert second.messages[1]["tool_calls"] == [call]


def test_text_that_no_tokenizer_can_encode_is_replaced(lab: HarnessSession) -> None:
    gateway = ScriptGateway(script("say hi", "submit yes"))
    planned = [PlannedRollout(task("t0", question="bad \ud800 é"), 0, 7, "g0")]
    (row,) = runner(lab, gateway).run(planned)
    assert row.messages[0]["content"] == "bad ? é"


FORGETFUL = """
async def run(task, model, tools):
    messages = [{"role": "user", "content": task["question"]}]
    while True:
        reply = await model.chat(messages[:1] + messages[-1:])
        result = await tools.call("say", text=reply.content)
        messages.append({"role": "tool", "content": result.text})
        if reply.content == "end":
            return
"""


def test_what_a_call_no_longer_shows_is_kept_beside_the_messages() -> None:
    (row,) = run_agent(FORGETFUL, "one", "two", "end")
    seen = [[message["content"] for message in call.context] for call in exchanges(row)]
    assert seen == [["q t0", "q t0"], ["q t0", "heard one"], ["q t0", "heard two"]]
    assert [call.reply["content"] for call in exchanges(row)] == ["one", "two", "end"]
    assert [(view.turn, view.unchanged, view.lost) for view in row.views] == [(1, 1, 2), (2, 1, 2)]


def test_a_conversation_that_goes_on_leaves_no_such_trace() -> None:
    gateway = ScriptGateway(script("say hi", "log", "submit yes"))
    with session() as held:
        (row,) = runner(held, gateway).run(plan(1))
    assert row.views == []


def test_of_what_is_no_longer_shown_a_row_keeps_so_much() -> None:
    long = FORGETFUL.replace('task["question"]', '"x" * 20000')
    (row,) = run_agent(
        long.replace("messages[:1] + messages[-1:]", "messages[-1:]"), "one", "two", "end"
    )
    assert [(view.lost, len(view.removed)) for view in row.views] == [(2, 2), (2, 2)]
    huge = long.replace("20000", "40000")
    (row,) = run_agent(
        huge.replace("messages[:1] + messages[-1:]", "messages[-1:]"), "one", "two", "end"
    )
    assert [(view.lost, len(view.removed)) for view in row.views] == [(2, 0), (2, 2)]


def test_replies_that_end_at_their_limit_are_counted() -> None:
    class Cut(ScriptGateway):
        def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
            replies = super().generate(requests)
            return [replace(reply, finish_reason="length") for reply in replies]

    with session() as held:
        (row,) = runner(held, Cut(script("say hi", "submit yes"))).run(plan(1))
    assert (row.turns, row.cut_replies) == (2, 2)
