"""OpenHands' `output.jsonl`: one instance a line, its history as events (of 0.x, and of the SDK).

Actions of the agent are tool calls; those of one reply of the model are one message. An observation
worked where it says so: by `success`, exit code or `is_error`, or where an editor's answer begins
with ERROR. Events that no model saw are counted. `report.resolved`, which the evaluation adds, is
the outcome; `error` tells limits that were hit from agents in a loop (policy) and failed machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.core.protocols import JSON, Message, RolloutFailure, StopReason, ToolEvent
from meta_agent.readers.formats._draft import Draft, cost_of
from meta_agent.readers.formats._format import Count, has
from meta_agent.readers.formats._messages import before_reply, parse_messages, told_by, turns_of
from meta_agent.readers.formats._row import Row, RowError, finite

NAME = "openhands"
_FINISH: Final = "finish"
_UNSEEN: Final = ("recall", "change_agent_state", "agent_state_changed", "null", "condensation")
_LIMITS: Final[dict[str, StopReason]] = {
    **{"maximum iteration": "turn_limit", "maxiterations": "turn_limit", "budget": "turn_limit"},
    **{"context window": "token_limit", "contextwindow": "token_limit", "timed out": "wall_limit"},
}
_PLUMBING: Final = (
    *("thought", "is_input", "blocking", "is_static", "cwd", "hidden", "confirmation_state"),
    *("security_risk", "is_confirmed"),
)
_OWN_FAULT: Final = ("stuck", "loop", "no action", "malformed")


def claims(value: JSON) -> int:
    return 3 if has(value, "instance_id", "test_result", "history") else 0


def read(row: Row, count: Count) -> Draft:
    instance, result = row.label("instance_id"), row.object("test_result")
    if instance is None:
        raise RowError("field instance_id: expected a string")
    row.skip("instruction", "instance", "runtime_runs")
    messages = parse_messages(list(_merged(row.items("history") or (), count)), "history", count)
    events, _ = told_by(messages)
    error, metadata = row.text("error"), row.object("metadata")
    stop, failure = _ending(error, events)
    patch = result.get("git_patch")
    patched = isinstance(patch, str) or (patch is None and "git_patch" in result.values)
    return Draft(
        prompt=before_reply(messages),
        messages=messages or None,
        tool_events=events if messages else None,
        tool_ok=_all_told(messages, events),
        turns=turns_of(messages) if messages else None,
        task_key=instance,
        sample_idx=max(0, (row.integer("attempt") or 1) - 1) if "attempt" in row.values else None,
        policy=(metadata.object("llm_config") or metadata.object("llm")).text("model"),
        outcome=(row.object("report") or result.object("report")).flag("resolved"),
        error=failure,
        stop_reason=stop,
        verifier_inputs={"patch": patch or ""} if patched else {},
        cost=_cost(row.object("metrics")),
        domain="swe" if patched else "",
    )


def _merged(history: list[JSON] | tuple[()], count: Count) -> Iterator[JSON]:
    """Messages, where calls of one reply are one."""
    last: dict[str, JSON] = {}
    for event in _flat(history):
        message = _message(event, count)
        if message is None:
            continue
        reply = message.pop("reply", None)
        if reply and reply == last.get("reply"):
            last["message"]["tool_calls"] += message["tool_calls"]
            continue
        last = {"reply": reply, "message": message} if reply else last
        yield message


def _flat(history: list[JSON] | tuple[()]) -> Iterator[dict[str, JSON]]:
    """Up to 0.8 an event was a pair of action and observation."""
    for item in history:
        for event in item if isinstance(item, list) else (item,):
            if not isinstance(event, dict):
                raise RowError("an event of history: expected an object")
            yield event


def _message(event: dict[str, JSON], count: Count) -> dict[str, JSON] | None:
    kind = event.get("kind") or event.get("action") or event.get("observation")
    reader = _OF_SDK.get(str(kind)) if "kind" in event else None
    if reader is not None:
        return reader(event)
    if "kind" in event or kind in _UNSEEN or not isinstance(kind, str):
        count(f"event {kind}")
        return None
    return _action(event, kind) if "action" in event else _observation(event, kind)


def _action(event: dict[str, JSON], kind: str) -> dict[str, JSON]:
    args = _object(event.get("args"))
    said = args.get("thought") or args.get("content") or ""
    if kind in ("system", "message"):
        role = "system" if kind == "system" else _role(event)
        return {"role": role, "content": args.get("content") or event.get("message")}
    told = _object(event.get("tool_call_metadata"))
    given = {name: v for name, v in args.items() if name not in _PLUMBING and v is not None}
    function = _called(told) or {"name": told.get("function_name") or kind, "arguments": given}
    call = {"id": told.get("tool_call_id") or f"event-{event.get('id')}", "function": function}
    reply = _object(told.get("model_response")).get("id")
    content = said if "thought" in args else ""
    return {"role": "assistant", "content": content, "tool_calls": [call], "reply": reply}


def _called(told: dict[str, JSON]) -> JSON:
    """The call as the model made it, where the event repeats the model's reply."""
    choices = _object(told.get("model_response")).get("choices")
    said = _object(choices[0]).get("message") if isinstance(choices, list) and choices else None
    calls = _object(said).get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    mine = [c for c in listed if _object(c).get("id") == told.get("tool_call_id")]
    return mine[0].get("function") if mine else None


def _role(event: dict[str, JSON]) -> str:
    return "assistant" if event.get("source") == "agent" else "user"


def _observation(event: dict[str, JSON], kind: str) -> dict[str, JSON]:
    told, extras = _object(event.get("tool_call_metadata")), _object(event.get("extras"))
    code = _object(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    content = event.get("content")
    ok = event.get("success")
    if not isinstance(ok, bool):
        wrong = kind == "error" or (isinstance(content, str) and content.startswith("ERROR"))
        ok = code == 0 if type(code) is int else not wrong
    call = told.get("tool_call_id") or f"event-{event.get('cause')}"
    return {"role": "tool", "content": content, "tool_call_id": call, "is_error": not ok}


def _system_prompt(event: dict[str, JSON]) -> dict[str, JSON]:
    return {"role": "system", "content": [event.get("system_prompt")]}


def _said(event: dict[str, JSON]) -> dict[str, JSON]:
    return _object(event.get("llm_message"))


def _acted(event: dict[str, JSON]) -> dict[str, JSON]:
    call = event.get("tool_call")
    message = {"role": "assistant", "content": event.get("thought"), "tool_calls": [call]}
    thoughts = event.get("reasoning_content")
    return {**message, "reasoning_content": thoughts, "reply": event.get("llm_response_id")}


def _observed(event: dict[str, JSON]) -> dict[str, JSON]:
    seen = _object(event.get("observation"))
    code, content = seen.get("exit_code"), seen.get("content", seen.get("output"))
    failed = seen.get("is_error") is True or (type(code) is int and code != 0)
    result = {"role": "tool", "content": content, "tool_call_id": event.get("tool_call_id")}
    return {**result, "is_error": failed}


def _refused(event: dict[str, JSON]) -> dict[str, JSON]:
    said = event.get("error") or event.get("rejection_reason")
    result = {"role": "tool", "content": said, "tool_call_id": event.get("tool_call_id")}
    return {**result, "is_error": True}


_OF_SDK: Final = {
    "SystemPromptEvent": _system_prompt,
    "MessageEvent": _said,
    "ActionEvent": _acted,
    "ObservationEvent": _observed,
    "AgentErrorEvent": _refused,
    "UserRejectObservation": _refused,
}


def _object(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


def _all_told(messages: list[Message], events: list[ToolEvent]) -> bool:
    """Finishing has no observation in 0.x, and can't fail."""
    answers = [message for message in messages if message["role"] == "tool"]
    finished = [event for event in events if event.tool == _FINISH]
    return len(events) <= len(answers) + len(finished)


def _ending(
    error: str | None, events: list[ToolEvent]
) -> tuple[StopReason | None, RolloutFailure | None]:
    if not error:
        return ("submitted" if events and events[-1].tool == _FINISH else None), None
    text = error.lower()
    limit = next((stop for mark, stop in _LIMITS.items() if mark in text), None)
    if limit is not None:
        return limit, None
    own = any(mark in text for mark in _OWN_FAULT)
    return "error", RolloutFailure("policy" if own else "infra", error[:2000])


def _cost(metrics: Row) -> dict[str, float]:
    usage = metrics.object("accumulated_token_usage")
    sides = (finite(usage.get(f"{side}_tokens")) or None for side in ("prompt", "completion"))
    return cost_of(metrics.number("accumulated_cost") or None, *sides)
