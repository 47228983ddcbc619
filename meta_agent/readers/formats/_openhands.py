"""OpenHands' `output.jsonl`: one instance a line, with its history as events (of 0.x or the SDK).

Actions of the agent become tool calls; the actions of one model reply share a message. An
observation says whether its call worked: by `success`, an exit code, `is_error`, or an editor's
answer that begins with ERROR. Events that no model saw are counted as left out. The outcome is
`report.resolved`, which the evaluation adds. By `error`, the reader distinguishes a limit that was
hit, an agent in a loop, and a machine that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON, RolloutFailure, StopReason, ToolEvent
from meta_agent.readers.formats._draft import AttemptDraft
from meta_agent.readers.formats._format import CERTAIN, ERROR_CHARS, Format, Keys
from meta_agent.readers.formats._messages import LeaveOut, parse_messages
from meta_agent.readers.formats._row import RowError, SourceRow, as_object, has

_KEYS: Final = Keys(
    task="instance_id",
    policy="metadata.llm_config.model metadata.llm.model",
    outcome="report.resolved test_result.report.resolved",
    needs="instance_id",
    patch="test_result.git_patch",
    usd="metrics.accumulated_cost",
    tokens="metrics.accumulated_token_usage.prompt_tokens"
    " metrics.accumulated_token_usage.completion_tokens",
    skip="instruction instance runtime_runs",
    stops={
        **{"maximum iteration": "turn_limit", "maxiterations": "turn_limit"},
        **{"budget": "turn_limit", "context window": "token_limit"},
        **{"contextwindow": "token_limit", "timed out": "wall_limit"},
    },
)
_FINISH: Final = "finish"
_UNSEEN: Final = ("recall", "change_agent_state", "agent_state_changed", "null", "condensation")
_PLUMBING: Final = (
    *("thought", "is_input", "blocking", "is_static", "cwd", "hidden", "confirmation_state"),
    *("security_risk", "is_confirmed"),
)
_OWN_FAULT: Final = ("stuck", "loop", "no action", "malformed")


def _claims(value: JSON) -> int:
    if not has(value, "instance_id", "test_result"):
        return 0
    if "history" in value:
        return CERTAIN
    return CERTAIN if "metadata" in value or "error" in value else 0


def _identity(row: SourceRow, path: Path) -> JSON:
    """Returns an id that an instance shares with its copy in the file of the evaluation."""
    history, result = row.values.get("history"), as_object(row.values.get("test_result"))
    where = None if history else [str(path.parent), path.name.partition(".")[0]]
    names = ("instance_id", "attempt", "error")
    return [*(row.values.get(name) for name in names), history, result.get("git_patch"), where]


def _read(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    draft = _KEYS.draft(row, count)
    messages = parse_messages(list(_merged(row.items("history") or (), count)), "history", count)
    draft.converse(messages)
    events = draft.tool_events or []
    answers = [message for message in messages if message["role"] == "tool"]
    # Finishing has no observation in 0.x, and cannot fail.
    draft.tool_ok = bool(answers) or all(event.tool == _FINISH for event in events)
    draft.stop_reason, draft.error = _ending(row.text("error"), events)
    if "attempt" in row.values:
        draft.sample_idx = max(0, (row.integer("attempt") or 1) - 1)
    draft.cost = {name: amount for name, amount in draft.cost.items() if amount}
    draft.domain = "swe" if draft.verifier_inputs else ""
    return draft


def _merged(history: Iterable[JSON], count: LeaveOut) -> Iterator[JSON]:
    """Yields the messages of a history; all calls of one reply are in one message."""
    last: dict[str, JSON] = {}
    for event in history:
        if not isinstance(event, dict):
            raise RowError("an event of history: expected an object")
        message = _message(event, count)
        if message is None:
            continue
        reply = message.pop("reply", None)
        if reply and reply == last.get("reply"):
            last["message"]["tool_calls"] += message["tool_calls"]
            continue
        last = {"reply": reply, "message": message} if reply else last
        yield message


def _message(event: dict[str, JSON], count: LeaveOut) -> dict[str, JSON] | None:
    kind = event.get("kind") or event.get("action") or event.get("observation")
    message = None
    if "kind" in event:
        message = _of_sdk(event)
    elif isinstance(kind, str) and kind not in _UNSEEN:
        message = _action(event, kind) if "action" in event else _observation(event, kind)
    if message is None:
        count(f"event {kind}")
    return message


def _action(event: dict[str, JSON], kind: str) -> dict[str, JSON]:
    args = as_object(event.get("args"))
    if kind == "system" or kind == "message":
        speaker = "assistant" if event.get("source") == "agent" else "user"
        role = "system" if kind == "system" else speaker
        return {"role": role, "content": args.get("content") or event.get("message")}
    meta = as_object(event.get("tool_call_metadata"))
    arguments = {name: v for name, v in args.items() if name not in _PLUMBING and v is not None}
    function = _function_called(meta) or {
        "name": meta.get("function_name") or kind,
        "arguments": arguments,
    }
    call = {"id": meta.get("tool_call_id") or f"event-{event.get('id')}", "function": function}
    content = args.get("thought") or args.get("content") or "" if "thought" in args else ""
    reply = as_object(meta.get("model_response")).get("id")
    return {"role": "assistant", "content": content, "tool_calls": [call], "reply": reply}


def _function_called(meta: dict[str, JSON]) -> JSON:
    """Returns the call as the model made it, where the event repeats the model's reply."""
    choices = as_object(meta.get("model_response")).get("choices")
    first = as_object(choices[0]) if isinstance(choices, list) and choices else {}
    calls = as_object(first.get("message")).get("tool_calls")
    for call in map(as_object, calls if isinstance(calls, list) else ()):
        if call.get("id") == meta.get("tool_call_id"):
            return call.get("function")
    return None


def _observation(event: dict[str, JSON], kind: str) -> dict[str, JSON]:
    extras = as_object(event.get("extras"))
    code = as_object(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    content, worked = event.get("content"), event.get("success")
    if not isinstance(worked, bool):
        wrong = kind == "error" or (isinstance(content, str) and content.startswith("ERROR"))
        worked = code == 0 if type(code) is int else not wrong
    call_id = as_object(event.get("tool_call_metadata")).get("tool_call_id")
    call = call_id or f"event-{event.get('cause')}"
    return {"role": "tool", "content": content, "tool_call_id": call, "is_error": not worked}


def _of_sdk(event: dict[str, JSON]) -> dict[str, JSON] | None:
    """Returns the message of an event of the SDK, or None for events that no model saw."""
    answer: dict[str, JSON] = {"role": "tool", "tool_call_id": event.get("tool_call_id")}
    match event["kind"]:
        case "SystemPromptEvent":
            return {"role": "system", "content": [event.get("system_prompt")]}
        case "MessageEvent":
            return as_object(event.get("llm_message"))
        case "ActionEvent":
            return {
                "role": "assistant",
                "content": event.get("thought"),
                "tool_calls": [event.get("tool_call")],
                "reasoning_content": event.get("reasoning_content"),
                "reply": event.get("llm_response_id"),
            }
        case "ObservationEvent":
            result = as_object(event.get("observation"))
            code = result.get("exit_code")
            failed = result.get("is_error") is True or (type(code) is int and code != 0)
            content = result.get("content", result.get("output"))
            return {**answer, "content": content, "is_error": failed}
        case "AgentErrorEvent" | "UserRejectObservation":
            why = event.get("error") or event.get("rejection_reason")
            return {**answer, "content": why, "is_error": True}
    return None


def _ending(
    error: str | None, events: list[ToolEvent]
) -> tuple[StopReason | None, RolloutFailure | None]:
    if not error:
        return ("submitted" if events and events[-1].tool == _FINISH else None), None
    text = error.lower()
    limit = next((stop for mark, stop in _KEYS.stops.items() if mark in text), None)
    if limit is not None:
        return limit, None
    own_fault = any(mark in text for mark in _OWN_FAULT)
    return "error", RolloutFailure("policy" if own_fault else "infra", error[:ERROR_CHARS])


OPENHANDS: Final = Format(
    "openhands",
    "OpenHands' output.jsonl, evaluated or not",
    "instance_id, test_result, history",
    _claims,
    _read,
    identity=_identity,
)
