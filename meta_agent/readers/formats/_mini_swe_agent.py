"""mini-swe-agent trajectories (`.traj.json`): versions 1 and 1.1, and the bare list of messages.

Models behind the Responses API leave whole responses among the messages; each is one reply.

A command is a call of the tool `bash`: from `extra.actions`, from `tool_calls`, or from the one
fenced block of a reply (a reply with none, or with two, is the format error that the agent
itself sees). Its result is the message that follows, and it worked where the return code is 0.
`exit_status` says how it ended; a bare list does not say, so there the ending is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from meta_agent.core.protocols import JSON, Message, RolloutFailure, StopReason, ToolEvent
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._format import Count, Placed, has
from meta_agent.readers.formats._messages import parse_messages, turns_of
from meta_agent.readers.formats._responses import messages_of_items
from meta_agent.readers.formats._row import Row, RowError

NAME = "mini-swe-agent"
TOOL: Final = "bash"
_FENCE = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d+)\s*</returncode>")
SUBMIT_MARKS: Final = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_ENDINGS: Final[dict[str, StopReason]] = {
    "submitted": "submitted",
    "limitsexceeded": "turn_limit",
    "contextwindowexceedederror": "token_limit",
    "timeexceeded": "wall_limit",
}
_MACHINES = re.compile(
    r"api|ratelimit|connection|timeout|unavailable|authentic|permission|docker|container|internal"
)


def claims(value: JSON) -> int:
    if isinstance(value, dict):
        named = str(value.get("trajectory_format", "")).startswith("mini-swe-agent")
        named = named or has(value.get("info"), "exit_status", "submission")  # before it had a name
        return 3 if named and isinstance(value.get("messages"), list) else 0
    return 2 if _is_dialogue(value) and any(map(_acts, value)) else 0


def _acts(item: JSON) -> bool:
    content = item.get("content")
    return item["role"] == "assistant" and isinstance(content, str) and bool(_FENCE.search(content))


def _is_dialogue(value: JSON) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= 2
        and all(isinstance(item, dict) and "role" in item and "content" in item for item in value)
    )


def expand(placed: Placed) -> Iterator[Placed]:
    """A bare list of messages is one row."""
    value = placed.value
    yield Placed(placed.place, {"messages": value} if isinstance(value, list) else value)


def read(row: Row, count: Count) -> Draft:
    raw = row.items("messages")
    if not raw:
        raise RowError("field messages: expected at least one message (the run never began)")
    kept = [_chat(item, count) for item in raw if not _is_exit(item)]
    messages = parse_messages(kept, "messages", count)
    info = row.object("info")
    row.text("trajectory_format")
    events, tool_ok = _events(kept, messages)
    version = info.text("mini_version")
    stop, error = _ending(info, events)
    return Draft(
        prompt=messages[:2],
        messages=messages,
        tool_events=events,
        tool_ok=tool_ok,
        turns=turns_of(messages),
        task_key=row.label("instance_id"),
        policy=info.object("config").object("model").text("model_name"),
        harness_commit=f"mini-swe-agent {version}" if version else "",
        stop_reason=stop,
        error=error,
        verifier_inputs=_submission(info),
        cost=_cost(info.object("model_stats")),
        domain="swe",
    )


def _chat(item: JSON, count: Count) -> JSON:
    """A message of the Responses form as one of the chat form, with what was noted beside it."""
    if not isinstance(item, dict) or "role" in item:
        return item
    items = item.get("output") if item.get("object") == "response" else [item]
    said = messages_of_items(items, "messages", count)
    if not said:
        return {"role": "assistant", "content": "", "extra": item.get("extra")}
    first, *more = said
    for one in more:  # text after a call: still one reply
        first["content"] = "\n".join(filter(None, (first["content"], one["content"])))
        first["tool_calls"] = [*first.get("tool_calls", ()), *one.get("tool_calls", ())]
    return {**first, "extra": item.get("extra")}


def _is_exit(item: JSON) -> bool:
    return isinstance(item, dict) and item.get("role") == "exit"  # 1.1 ends with such a message


def _events(raw: Sequence[JSON], messages: Sequence[Message]) -> tuple[list[ToolEvent], bool]:
    events: list[ToolEvent] = []
    known, turn = True, -1
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        turn += 1
        commands = _commands(raw[index], message)
        for offset, command in enumerate(commands, 1):
            at = index + offset
            result = messages[at]["content"] if at < len(messages) else ""
            code = _return_code(raw[at], result) if at < len(messages) else None
            last = at >= len(messages) - 1 and any(mark in command for mark in SUBMIT_MARKS)
            known = known and (code is not None or last)
            events.append(ToolEvent(turn, TOOL, {"command": command}, result, code in (0, None)))
    return events, known


def _commands(raw: JSON, message: Message) -> list[str]:
    extra = raw.get("extra") if isinstance(raw, dict) else None
    actions = extra.get("actions") if isinstance(extra, dict) else None
    if isinstance(actions, list):
        return [_command(action) for action in actions]
    calls = message.get("tool_calls", ())
    if calls:
        return [str(call["function"]["arguments"]) for call in calls]
    found = _FENCE.findall(message["content"])
    return [found[0].strip()] if len(found) == 1 else []


def _command(action: JSON) -> str:
    return str(action.get("command", action) if isinstance(action, dict) else action)


def _return_code(raw: JSON, text: str) -> int | None:
    extra = raw.get("extra") if isinstance(raw, dict) else None
    code = extra.get("returncode") if isinstance(extra, dict) else None
    if type(code) is int:
        return code
    found = _CODE.search(text)
    return int(found[1]) if found else None


def _ending(
    info: Row, events: Sequence[ToolEvent]
) -> tuple[StopReason | None, RolloutFailure | None]:
    status = info.text("exit_status")
    if not status:  # a bare list: only a last command that hands in says how it ended
        last = str(events[-1].arguments) if events and not info else ""
        return ("submitted" if any(mark in last for mark in SUBMIT_MARKS) else None), None
    if status.lower() in _ENDINGS:
        return _ENDINGS[status.lower()], None
    kind = "infra" if _MACHINES.search(status.lower()) else "policy"
    return "error", RolloutFailure("infra" if kind == "infra" else "policy", status)


def _submission(info: Row) -> dict[str, JSON]:
    return {"patch": info.text("submission") or ""} if "submission" in info.values else {}


def _cost(stats: Row) -> dict[str, float]:
    usd, calls = stats.number("instance_cost"), stats.number("api_calls")
    # A cost of 0 with calls made is what unknown prices look like there.
    return {"usd": usd} if usd else {"usd": 0.0} if usd == 0 and not calls else {}
