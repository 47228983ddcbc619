"""Items of OpenAI's Responses form as chat messages: a turn's reasoning, text and calls are one.

NeMo Gym's rollouts are made of them, mini-swe-agent keeps whole responses, and they lie around in
`messages` lists. Items of other kinds are counted and left out.
"""

from __future__ import annotations

from meta_agent.core.protocols import JSON, Message
from meta_agent.readers.formats._format import Count
from meta_agent.readers.formats._messages import parse_messages, text_of
from meta_agent.readers.formats._row import RowError


def messages_of_items(value: JSON, field: str, count: Count) -> list[Message]:
    """A list of items, or a plain string as one of the user's."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise RowError(f"field {field}: expected a list of items")
    found: list[Message] = []
    for item in value:
        if not isinstance(item, dict):
            raise RowError(f"field {field}: expected items that are objects")
        _add_item(found, item, count)
    return parse_messages(found, field, count)


def _add_item(found: list[Message], item: dict[str, JSON], count: Count) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        _add_message(found, item, count)
    elif kind == "function_call":
        call = {"name": item.get("name"), "arguments": item.get("arguments", "{}")}
        turn = _open_turn(found)
        turn.setdefault("tool_calls", []).append({"id": item.get("call_id"), "function": call})
    elif kind == "function_call_output":
        content = text_of(item.get("output"), count)
        result = {"role": "tool", "tool_call_id": str(item.get("call_id") or "")}
        found.append({**result, "content": content})
    elif kind == "reasoning":
        turn = _open_turn(found)
        turn["reasoning_content"] = turn.get("reasoning_content", "") + _reasoning(item)
    else:
        count(f"response item {kind}")


def _add_message(found: list[Message], item: dict[str, JSON], count: Count) -> None:
    content = text_of(item.get("content"), count)
    if item.get("role") != "assistant":
        found.append({"role": item.get("role"), "content": content})
        return
    turn = _open_turn(found)
    if turn["content"] or turn.get("tool_calls"):
        turn = {"role": "assistant", "content": ""}
        found.append(turn)
    turn["content"] = content


def _open_turn(found: list[Message]) -> Message:
    if not found or found[-1]["role"] != "assistant":
        found.append({"role": "assistant", "content": ""})
    return found[-1]


def _reasoning(item: dict[str, JSON]) -> str:
    lists = [item.get(name) for name in ("summary", "content")]
    parts = [part for one in lists if isinstance(one, list) for part in one]
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
