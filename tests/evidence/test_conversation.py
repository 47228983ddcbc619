"""The conversation audit: what was seen, written, asked, answered and shown."""

from __future__ import annotations

from typing import Any

import pytest

from meta_agent.core.protocols import Message, Rollout, ToolEvent, ViewChange
from meta_agent.readers.evidence import build_evidence, exchanges, render_text
from meta_agent.readers.evidence.conversation import ConversationLayer
from tests.evidence._rollouts import rollout

TOLD = {"v": "x-3*y", "e35": "ok", "t": "2t lo", "s": "done"}
NAMES = {"v": "view", "e": "edit", "t": "test", "s": "submit"}


def audit(
    rollouts: list[Rollout], tasks: dict[str, dict[str, Any]] | None = None
) -> ConversationLayer:
    found = ConversationLayer(tasks or {})
    for one in rollouts:
        found.add(one)
    return found


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def own(text: str) -> Message:
    return {"role": "assistant", "content": text}


def tool(text: str) -> Message:
    return {"role": "tool", "content": text}


def event(turn: int, said: str, **changes: Any) -> ToolEvent:
    arguments = {"position": said[1], "char": said[2]} if said[0] == "e" else {}
    fields = {"turn": turn, "tool": NAMES[said[0]], "arguments": arguments, "result": TOLD[said]}
    return ToolEvent(**{**fields, "ok": True, **changes})


def attempt(**changes: Any) -> Rollout:
    """`v e35 t s`, with nothing wrong."""
    said = ("v", "e35", "t", "s")
    messages = [user("vets 3?")]
    for words in said:
        messages += [own(words), tool(TOLD[words])]
    fields = {"turns": 4, "messages": messages[:-1]}
    fields["tool_events"] = [event(at, words) for at, words in enumerate(said)]
    return rollout(**{**fields, **changes})


def shown_instead(at: int, text: str | None) -> Rollout:
    """The attempt with another answer shown after its turn `at`; None: none at all."""
    made = attempt()
    place = 2 * at + 2
    made.messages[place : place + 1] = [] if text is None else [tool(text)]
    return made


def asked_instead(**changes: Any) -> Rollout:
    made = attempt()
    made.tool_events[1] = event(1, "e35", **changes)
    return made


def test_nothing_is_wrong_with_an_attempt_that_goes_as_it_should() -> None:
    found = audit([attempt()], {"t0": {"issue": "3?"}}).metrics()
    usual = {"argument_coverage": 2 / 3, "argument_place": 1.0}
    assert {name: value for name, value in found.items() if value} == pytest.approx(usual)
    assert found["task_unseen"] == 0.0
    assert audit([attempt()]).quoted() == {}


WRONG = {
    "result_cut": (shown_instead(0, "x-3"), 1 / 3),
    "result_altered": (shown_instead(2, "2t ok"), 1 / 3),
    "result_stale": (shown_instead(1, "x-3*y"), 1 / 3),
    "result_dropped": (shown_instead(2, None), 1 / 3),
    "argument_changed": (asked_instead(arguments={"position": "4", "char": "5"}), 1 / 2),
    "argument_moved": (asked_instead(arguments={"position": "5", "char": "3"}), 1 / 2),
}


@pytest.mark.parametrize("kind", WRONG)
def test_each_disagreement_has_its_share_and_an_attempt_that_shows_it(kind: str) -> None:
    made, share = WRONG[kind]
    found = audit([made])
    others = {name for name in WRONG if name != kind}
    metrics = found.metrics()
    assert metrics[kind] == pytest.approx(share)
    assert not any(metrics[name] for name in others)
    assert found.quoted()[kind][0].startswith("search/t0#0 turn ")


def test_calls_that_nobody_wrote_and_replies_that_come_to_nothing() -> None:
    made = attempt()
    made.tool_events.insert(2, event(1, "t"))
    silent = attempt()
    del silent.tool_events[2]
    found = audit([made, silent]).metrics()
    assert found["call_unwritten"] == pytest.approx(1 / 8)
    assert found["reply_silent"] == pytest.approx(1 / 8)
    assert found["reply_lost"] == pytest.approx(1 / 8), "the same `t` is a call elsewhere"


def test_tool_calls_by_the_protocol_are_read_by_their_names() -> None:
    calls = [{"function": {"name": "edit", "arguments": '{"position": "3", "char": "5"}'}}]
    messages = [user("fix"), {**own(""), "tool_calls": calls}, tool("ok"), own("done")]
    asked = [event(0, "e35"), event(0, "t")]
    found = audit([attempt(turns=2, messages=messages, tool_events=asked)]).metrics()
    assert found["call_unwritten"] == pytest.approx(1 / 2)
    assert found["argument_changed"] == 0.0


def test_nothing_is_wrong_with_an_agent_that_runs_as_a_command() -> None:
    """It has tools of its own. The one recorded event is its command, which no model wrote."""
    function = {"name": "bash", "arguments": '{"command": "cat a.py"}'}
    calls = [{"id": "c0", "type": "function", "function": function}]
    messages = [user("mend it"), {**own(""), "tool_calls": calls}]
    messages += [{**tool("x = 1"), "tool_call_id": "c0"}, own("done")]
    ended = ToolEvent(1, "agent", {"command": "mini --task {prompt}"}, "[exit 0]", True)
    made = attempt(turns=2, messages=messages, tool_events=[ended])
    found = audit([made], {"t0": {"problem": "mend it", "tools": ["view", "edit"]}})
    assert found.quoted() == {}
    assert found.metrics()["reply_silent"] == pytest.approx(1 / 2)
    assert (found.metrics()["task_unseen"], found.metrics()["argument_coverage"]) == (0.0, 1.0)


def test_what_the_task_gives_and_the_first_message_does_not_hold() -> None:
    views = {"t0": {"issue": "3?", "call": "f", "examples": [["0", "4"], ["9", "7"]]}}
    found = audit([attempt()], views)
    assert found.metrics()["task_unseen"] == pytest.approx(5 / 6)
    assert found.quoted()["task_unseen"] == ("search/t0#0 turn 0: 'f' is not shown",)


def forgetful() -> Rollout:
    """The same attempt by a scaffold that shows the task and the last answer only."""
    views = [
        ViewChange(1, 1, 1, [own("v")]),
        ViewChange(2, 1, 2, [tool(TOLD["v"]), own("e35")]),
        ViewChange(3, 1, 2, [tool(TOLD["e35"]), own("t")]),
    ]
    messages = [user("vets 3?"), tool(TOLD["t"]), own("s")]
    return attempt(messages=messages, views=views)


def test_every_call_is_told_from_the_last_one_and_what_each_took_away() -> None:
    calls = exchanges(forgetful())
    assert [call.turn for call in calls] == [0, 1, 2, 3]
    assert [message["content"] for call in calls for message in call.context] == [
        "vets 3?",
        *("vets 3?", "x-3*y"),
        *("vets 3?", "ok"),
        *("vets 3?", "2t lo"),
    ]
    assert [call.reply["content"] for call in calls] == ["v", "e35", "t", "s"]
    found = audit([forgetful()]).metrics()
    assert found["forgotten"] == pytest.approx((1 / 2 + 3 / 4 + 5 / 6) / 3)
    assert found["reply_changed"] == 1.0
    assert found["result_dropped"] == found["result_altered"] == 0.0


def test_alerts_name_attempts_in_the_report() -> None:
    evidence = build_evidence([shown_instead(2, "2t ok")] * 8)
    assert evidence.alert("conversation.result_altered") is not None
    assert "test answered '2t lo', shown was '2t ok'" in render_text(evidence)
    assert build_evidence([attempt()] * 8).alert("conversation.result_altered") is None
