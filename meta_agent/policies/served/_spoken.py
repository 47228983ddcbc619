"""Parses the messages that a scaffold sends to a model: the one place that distrusts them.

A harness may send any JSON. Past this file the messages have the form of `core.chat`, so that
providers can trust it. Anything that is no conversation is a `SpokenError`, the scaffold's own
mistake: its rollout fails as the policy's, never as the infrastructure's.

Not covered: whether a provider accepts the order of the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_agent.core.chat import ToolSpec
from meta_agent.core.protocols import JSON, Message
from meta_agent.llm_clients.surrogates import mended

ROLES = ("system", "user", "assistant", "tool")


class SpokenError(ValueError):
    """Raised when a scaffold sends something that is not a conversation; its rollout fails for
    that.
    """


def messages_of(messages: Sequence[Message]) -> list[Message]:
    """Returns the messages with only the fields of a chat.

    Raises SpokenError if they are malformed.
    """
    if not messages:
        raise SpokenError("the call has no messages; send at least one")
    return [_message(message) for message in _mended(messages)]


def tools_of(schemas: Sequence[Mapping[str, JSON]] | None) -> tuple[ToolSpec, ...]:
    """Returns tools from OpenAI schemas. Raises SpokenError if one is malformed or a name
    repeats.
    """
    tools = tuple(_tool(schema) for schema in _mended(schemas or ()))
    if len({tool.name for tool in tools}) != len(tools):
        raise SpokenError("two tools have the same name; rename one")
    return tools


def _mended(messages: Sequence[Mapping[str, JSON]]) -> list[dict[str, JSON]]:
    try:
        return [mended(message) for message in messages]
    except ValueError as error:
        raise SpokenError(str(error)) from error


def _message(message: Message) -> Message:
    role = message.get("role")
    if role not in ROLES:
        raise SpokenError(f"a message has the unknown role {role!r:.40}")
    parsed: Message = {"role": role, "content": _text(message.get("content"))}
    if role == "assistant" and message.get("tool_calls"):
        parsed["tool_calls"] = [_call(call) for call in _listing(message["tool_calls"])]
    if role == "tool":
        parsed["tool_call_id"] = _string(message.get("tool_call_id"), "tool_call_id")
    return parsed


def _text(content: JSON) -> str:
    """Returns plain text. It joins a list of text parts, which some scaffolds send."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(_part(part) for part in _listing(content))


def _part(part: JSON) -> str:
    if not isinstance(part, Mapping) or part.get("type") != "text":
        raise SpokenError(f"content {part!r:.80} is not text")
    return _string(part.get("text"), "text")


def _call(call: JSON) -> JSON:
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
        raise SpokenError(f"the tool call {call!r:.80} has no function")
    function = call["function"]
    name, arguments = function.get("name"), function.get("arguments")
    plain = {"name": _string(name, "name"), "arguments": _string(arguments, "arguments")}
    return {"id": _string(call.get("id"), "id"), "type": "function", "function": plain}


def _tool(schema: Mapping[str, JSON]) -> ToolSpec:
    function = schema.get("function")
    if not isinstance(function, Mapping):
        raise SpokenError(f"tool {schema!r:.80} has no function")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping):
        raise SpokenError(f"a tool's parameters are no JSON schema: {parameters!r:.80}")
    name = _string(function.get("name"), "name of a tool")
    return ToolSpec(name, str(function.get("description") or ""), parameters)


def _listing(value: JSON) -> Sequence[JSON]:
    if not isinstance(value, list):
        raise SpokenError(f"{value!r:.80} is not a list")
    return value


def _string(value: JSON, what: str) -> str:
    if not isinstance(value, str):
        raise SpokenError(f"{what} {value!r:.80} is not a string")
    return value
