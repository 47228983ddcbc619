"""Messages of many forms in the one form that a record keeps, which is OpenAI's chat form.

Content parts become text; a part without text, such as an image, is named in its place. Tool calls
keep their JSON text. A tool message keeps `is_error` where the data has it: then it is known
whether the call worked. Read as well are the content blocks of Anthropic's Messages, OpenAI's
custom tools, and the items of OpenAI's Responses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from meta_agent.core.protocols import JSON, Message
from meta_agent.readers.formats._row import RowError, as_object, excerpt, has

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_ROLE_OF: Final = {"developer": "system", "function": "tool"}
_THOUGHTS: Final = ("thinking", "reasoning")
_BLOCKS: Final = ("tool_use", "tool_result", *_THOUGHTS)
LeaveOut = Callable[[str], None]


def parse_messages(value: JSON, field: str, count: LeaveOut) -> list[Message]:
    """Returns the messages of a list, in chat form; a string becomes one user message.

    Raises RowError, which names `field`, for other values. `count` gets names of omitted parts.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise RowError(f"field {field}: expected a list of messages")
    return [
        _message(message, f"{field}[{i}]", count)
        for i, item in enumerate(value)
        for message in _in_chat_form(item)
    ]


def dialogue(value: JSON, field: str, count: LeaveOut) -> list[Message]:
    """Returns the messages of a list, also if some are items of OpenAI's Responses form.

    Raises RowError, which names `field`, for other values. `count` gets names of omitted parts.
    """
    # Items of the Responses form have no role: a call, its output, or reasoning.
    of_responses = isinstance(value, list) and any(
        has(item, "type") and "role" not in item for item in value
    )
    return (messages_of_items if of_responses else parse_messages)(value, field, count)


def parse_exchange(
    prompt: JSON,
    completion: JSON,
    count: LeaveOut,
    fields: tuple[str, str] = ("prompt", "completion"),
) -> tuple[list[Message], int]:
    """Returns the messages of a prompt and its completion, and how many belong to the prompt."""
    before = parse_messages(prompt, fields[0], count)
    if isinstance(completion, str):
        return [*before, {"role": "assistant", "content": completion}], len(before)
    return [*before, *parse_messages(completion, fields[1], count)], len(before)


def _message(item: JSON, place: str, count: LeaveOut) -> Message:
    if not isinstance(item, dict):
        raise RowError("a message: expected an object with role and content", place)
    role = item.get("role")
    if not isinstance(role, str) or role not in ROLES:
        roles = ", ".join(sorted(ROLES))
        raise RowError(f"a message's role: expected one of {roles}", f"{excerpt(role)} in {place}")
    role = _ROLE_OF.get(role, role)
    message: Message = {"role": role, "content": text_of(item.get("content"), count)}
    for name in ("reasoning_content", "name", "tool_call_id"):
        if isinstance(item.get(name), str) and item[name]:
            message[name] = item[name]
    if role == "tool" and isinstance(item.get("is_error"), bool):
        message["is_error"] = item["is_error"]
    calls = item.get("tool_calls")
    if calls and not isinstance(calls, list):
        raise RowError("field tool_calls: expected a list", place)
    if calls:
        message["tool_calls"] = [_call(call, place) for call in calls]
    return message


def text_of(content: JSON, count: LeaveOut) -> str:
    """Returns a message's content as text, its parts joined. Raises RowError on other values."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part, count) for part in content)
    raise RowError("a message's content: expected a string or a list of parts")


def _part(part: JSON, count: LeaveOut) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        for name in ("text", "refusal"):
            if isinstance(part.get(name), str):
                return str(part[name])
        count(f"content part {part.get('type', 'unnamed')}")
        return f"[{part.get('type', 'part')} not carried over]"
    raise RowError("a content part: expected an object with text")


def _call(call: JSON, place: str) -> dict[str, JSON]:
    """Returns a tool call. A tool may write the function's name and arguments beside the id."""
    if isinstance(call, str):  # verifiers stores each call as JSON text
        try:
            call = json.loads(call)
        except (ValueError, RecursionError):
            call = None
    fields = as_object(call)
    inner = fields.get("function") or fields.get("custom") or fields
    if not isinstance(inner, dict):
        inner = {**fields, "name": inner}
    name = inner.get("name") or inner.get("function_name")
    if not isinstance(name, str):
        raise RowError("a tool call: expected function.name", place)
    arguments = inner.get("arguments") or inner.get("input") or {}  # of a custom tool any text
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    call_id = str(fields.get("id") or fields.get("tool_call_id") or "")
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


# --- dialects -----------------------------------------------------------------------------------


def _in_chat_form(item: JSON) -> Iterator[JSON]:
    """Yields the chat messages that an item of a list holds. Most items are one message."""
    if not isinstance(item, dict):
        yield item
    elif isinstance(item.get("content"), list) and any(map(_is_block, item["content"])):
        yield from _of_blocks(item)
    else:
        changes: dict[str, JSON] = {}
        if not item.get("content") and isinstance(item.get("refusal"), str):
            changes["content"] = item["refusal"]
        if isinstance(item.get("reasoning"), str) and not item.get("reasoning_content"):
            changes["reasoning_content"] = item["reasoning"]
        yield {**item, **changes}


def _is_block(part: JSON) -> bool:
    return as_object(part).get("type") in _BLOCKS


def _of_blocks(item: dict[str, JSON]) -> Iterator[JSON]:
    """Yields chat messages of content blocks: results first, since they answer earlier calls."""
    parts = item["content"]
    calls, thoughts = [], []
    for part in filter(_is_block, parts):
        if part["type"] == "tool_result":
            answer = {"role": "tool", "content": part.get("content")}
            failed = part.get("is_error") is True
            call_id = str(part.get("tool_use_id") or "")
            yield {**answer, "is_error": failed, "tool_call_id": call_id}
        elif part["type"] == "tool_use":
            function = {"name": part.get("name"), "arguments": part.get("input") or {}}
            calls.append({"id": part.get("id"), "function": function})
        else:  # a redacted thought has no text
            thoughts += [part[n] for n in _THOUGHTS if isinstance(part.get(n), str)][:1]
    rest = [part for part in parts if not _is_block(part)]
    if rest or calls or thoughts:
        message = {**item, "content": rest}
        message |= {"tool_calls": calls} if calls else {}
        yield message | ({"reasoning_content": "\n".join(thoughts)} if any(thoughts) else {})


# --- items of OpenAI's Responses ------------------------------------------------------------------


def messages_of_items(value: JSON, field: str, count: LeaveOut) -> list[Message]:
    """Returns items of OpenAI's Responses form as chat messages. Raises `RowError` on other values.

    Reasoning, text and calls of one turn become one message. A string is a user's message. Items
    of unknown kinds are counted and left out.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise RowError(f"field {field}: expected a list of items")
    messages: list[Message] = []
    for item in value:
        if not isinstance(item, dict):
            raise RowError(f"field {field}: expected items that are objects")
        _add_item(messages, item, count)
    return parse_messages(messages, field, count)


def _add_item(messages: list[Message], item: dict[str, JSON], count: LeaveOut) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        _add_message(messages, item, count)
    elif kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments", item.get("input", "{}"))
        call = {"name": item.get("name"), "arguments": arguments}
        turn = _open_turn(messages)
        turn.setdefault("tool_calls", []).append({"id": item.get("call_id"), "function": call})
    elif kind in ("function_call_output", "custom_tool_call_output"):
        content = text_of(item.get("output"), count)
        result = {"role": "tool", "tool_call_id": str(item.get("call_id") or "")}
        messages.append({**result, "content": content})
    elif kind == "reasoning":
        turn = _open_turn(messages)
        lists = [item.get(name) for name in ("summary", "content")]
        parts = [as_object(part) for values in lists if isinstance(values, list) for part in values]
        text = "".join(str(part.get("text", "")) for part in parts)
        turn["reasoning_content"] = turn.get("reasoning_content", "") + text
    else:
        count(f"response item {kind}")


def _add_message(messages: list[Message], item: dict[str, JSON], count: LeaveOut) -> None:
    content = text_of(item.get("content"), count)
    if item.get("role") != "assistant":
        messages.append({"role": item.get("role"), "content": content})
        return
    turn = _open_turn(messages)
    if turn["content"] or turn.get("tool_calls"):
        turn = {"role": "assistant", "content": ""}
        messages.append(turn)
    turn["content"] = content


def _open_turn(messages: list[Message]) -> Message:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]
