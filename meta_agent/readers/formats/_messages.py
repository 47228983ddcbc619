"""Messages of OpenAI's chat form, as they lie around, in the one form that a record keeps.

Content parts become text (a part that is none, such as an image, is named in its place); tool
calls keep their JSON text; other dialects are translated first (`_dialects.py`). A tool message
keeps `is_error` where the data says so: then it is known whether the call worked. `told_by` pairs
tool calls with their results by id, or by order where ids are missing, and says what each call was
and returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from meta_agent.core.protocols import JSON, Message, ToolEvent
from meta_agent.readers.formats._dialects import spoken
from meta_agent.readers.formats._row import Row, RowError, finite, shown

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
Count = Callable[[str], None]


def parse_messages(value: JSON, field: str, count: Count) -> list[Message]:
    """A list of messages, or a plain string as one of the user's."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise RowError(f"field {field}: expected a list of messages")
    return [
        _message(one, f"{field}[{i}]", count)
        for i, item in enumerate(value)
        for one in spoken(item)
    ]


def parse_completion(value: JSON, field: str, count: Count) -> list[Message]:
    """The same where a plain string is the model's."""
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    return parse_messages(value, field, count)


def _message(item: JSON, place: str, count: Count) -> Message:
    if not isinstance(item, dict):
        raise RowError("a message: expected an object with role and content", place)
    role = item.get("role")
    if not isinstance(role, str) or role not in ROLES:
        wanted = ", ".join(sorted(ROLES))
        raise RowError(f"a message's role: expected one of {wanted}", f"{shown(role)} in {place}")
    role = {"developer": "system", "function": "tool"}.get(str(role), role)
    message: Message = {"role": role, "content": text_of(item.get("content"), count)}
    for name in ("reasoning_content", "name", "tool_call_id"):
        if isinstance(item.get(name), str) and item[name]:
            message[name] = item[name]
    if role == "tool" and isinstance(item.get("is_error"), bool):
        message["is_error"] = item["is_error"]
    if item.get("tool_calls"):
        message["tool_calls"] = [_call(call, place) for call in _listed(item["tool_calls"], place)]
    return message


def text_of(content: JSON, count: Count) -> str:
    """Content as text: a string, or the texts of its parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part, count) for part in content)
    raise RowError("a message's content: expected a string or a list of parts")


def _part(part: JSON, count: Count) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        for name in ("text", "refusal"):
            if isinstance(part.get(name), str):
                return str(part[name])
        count(f"content part {part.get('type', 'unnamed')}")
        return f"[{part.get('type', 'part')} not carried over]"
    raise RowError("a content part: expected an object with text")


def _listed(value: JSON, place: str) -> list[JSON]:
    if isinstance(value, list):
        return value
    raise RowError("tool_calls: expected a list", place)


def _call(call: JSON, place: str) -> dict[str, JSON]:
    if isinstance(call, str):  # verifiers stores each call as JSON text
        call = _json_object(call)
    inner = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise RowError("a tool call: expected function.name", place)
    arguments = inner.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    function = {"name": inner["name"], "arguments": text}
    return {"id": str(call.get("id") or ""), "type": "function", "function": function}


def _json_object(text: str) -> JSON:
    try:
        return json.loads(text)
    except ValueError:
        return None


def told_by(messages: Sequence[Message]) -> tuple[list[ToolEvent], bool]:
    """The tool events of a dialogue, and whether the data says of each that it worked, or not."""
    events: list[ToolEvent] = []
    waiting: dict[str, ToolEvent] = {}
    known, turn = True, -1
    for message in messages:
        if message["role"] == "assistant":
            turn += 1
            for number, call in enumerate(message.get("tool_calls", ())):
                event = _event(call, turn)
                events.append(event)
                waiting[call["id"] or f"#{turn}.{number}"] = event
        elif message["role"] == "tool" and waiting:
            key = message.get("tool_call_id", "")
            event = waiting.pop(key if key in waiting else next(iter(waiting)))
            event.result = message["content"]
            event.ok = not message.get("is_error", False)
            known = known and "is_error" in message
    return events, known and not waiting


def _event(call: dict[str, JSON], turn: int) -> ToolEvent:
    function = call["function"]
    return ToolEvent(turn, function["name"], arguments_of(function["arguments"]), "", True)


def arguments_of(text: JSON) -> dict[str, JSON]:
    """Arguments as an object; what is none is kept as `text`."""
    value = _json_object(text) if isinstance(text, str) else text
    return value if isinstance(value, dict) else {"text": text}


def turns_of(messages: Iterable[Message]) -> int:
    """How often the model spoke."""
    return sum(message["role"] == "assistant" for message in messages)


def before_reply(messages: Sequence[Message]) -> list[Message]:
    """What the model was given before it first spoke."""
    first = next((i for i, m in enumerate(messages) if m["role"] == "assistant"), len(messages))
    return list(messages[:first])


def numbers_of(row: Row, count: Count) -> dict[str, float]:
    """The finite numbers of an object; others are counted by name."""
    found: dict[str, float] = {}
    for name in row.values:
        value = row.get(name)
        number = finite(value)
        if number is not None:
            found[name] = number
        elif value is not None:
            count(f"{row.prefix}{name} (not a number)")
    return found
