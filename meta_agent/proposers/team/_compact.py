"""A conversation that outgrows its model: old tool results give way to one line each.

Promises: deterministic; calls, decisions, system and opening messages stay word for word, and so do
the newest turns; the line that replaces a result names the call, and thereby the path and lines
that were read, so that it can be read again. Done in steps: between two compactions a prompt only
grows at its end, which is what a provider's cache needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from meta_agent.core.chat import ToolSpec
from meta_agent.core.protocols import Message
from meta_agent.proposers.team._limits import CHARS_PER_TOKEN, COMPACT_TO, KEEP_TURNS

_SHORT = 300  # results below this are left: they are mostly decisions
_MARK = "[result left out to save room: "


def estimate_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
    """Estimates how many tokens the messages and tools of a prompt take, from their characters."""
    sizes = [len(json.dumps(message, ensure_ascii=False)) for message in messages]
    sizes += [len(t.description) + len(json.dumps(dict(t.parameters))) for t in tools]
    return int(sum(sizes) / CHARS_PER_TOKEN)


def compact(messages: list[Message], limit_tokens: int, tools: Sequence[ToolSpec] = ()) -> bool:
    """Shortens old tool results in place if needed; returns True if all fits `limit_tokens`."""
    for keep in KEEP_TURNS:
        size = estimate_tokens(messages, tools)
        if size <= limit_tokens:
            return True
        _shorten(messages, size - int(limit_tokens * COMPACT_TO), _first_kept(messages, keep))
    return estimate_tokens(messages, tools) <= limit_tokens


def _shorten(messages: list[Message], tokens: int, end: int) -> None:
    """Takes about this many tokens out of the tool results before `end`, oldest first."""
    calls = _calls(messages)
    for at in range(end):
        message = messages[at]
        if tokens <= 0:
            return
        if message["role"] == "tool" and _long(message):
            shorter = {
                **message,
                "content": _stand_in(calls.get(message["tool_call_id"], "a tool")),
            }
            tokens -= int((len(message["content"]) - len(shorter["content"])) / CHARS_PER_TOKEN)
            messages[at] = shorter


def _long(message: Message) -> bool:
    return len(message["content"]) > _SHORT and not message["content"].startswith(_MARK)


def _stand_in(call: str) -> str:
    return f"{_MARK}{call}. Call it again if you need it.]"


def _calls(messages: Sequence[Message]) -> dict[str, str]:
    """Returns every tool call in one line, by its id."""
    return {
        call["id"]: in_a_line(call["function"]["name"], json.loads(call["function"]["arguments"]))
        for message in messages
        for call in message.get("tool_calls", ())
    }


def in_a_line(name: str, arguments: Mapping[str, object]) -> str:
    """Returns a tool call as text, `name(key=value, ...)`, with long values shortened."""
    listed = ", ".join(f"{key}={_brief(value)}" for key, value in arguments.items())
    return f"{name}({listed})"


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:120]}...({len(text)} characters)"


def _first_kept(messages: Sequence[Message], keep: int) -> int:
    """Returns the index at which the newest `keep` turns begin."""
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    return replies[-keep] if len(replies) >= keep else 0
