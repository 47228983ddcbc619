"""Parses the messages that a scaffold sends to a model, and is the one place that distrusts them.

A harness may send any JSON. After this file the messages have the form of `core.chat`, so that
providers can trust it. A `SpokenError` says that something is no conversation. That is the
scaffold's own mistake: its rollout fails as the policy's, never as the infrastructure's.
Not covered: whether a provider accepts the order of the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_agent.core.chat import ToolSpec
from meta_agent.core.protocols import JSON, Message
from meta_agent.llm_clients.surrogates import mended

ROLES = ("system", "user", "assistant", "tool")


class SpokenError(ValueError):
    """Raised if a harness sends malformed messages or tools to its model; its rollout fails."""


def messages_of(messages: Sequence[Message]) -> list[Message]:
    """Returns a harness's chat messages without the fields that no chat model takes.

    Raises SpokenError if a message is malformed or there is none.
    """
    if not messages:
        raise SpokenError("the model call has no messages; send at least one")
    return [_message(message) for message in _mended(messages)]


def tools_of(schemas: Sequence[Mapping[str, JSON]] | None) -> tuple[ToolSpec, ...]:
    """Returns tool specifications parsed from JSON schemas in OpenAI's form.

    Raises SpokenError if a schema is malformed or two tools have the same name.
    """
    tools = tuple(_tool(schema) for schema in _mended(schemas or ()))
    if len({tool.name for tool in tools}) != len(tools):
        raise SpokenError("two tools of the call have the same name; rename one")
    return tools


def _mended(messages: Sequence[Mapping[str, JSON]]) -> list[dict[str, JSON]]:
    try:
        return [mended(message) for message in messages]
    except ValueError as error:
        raise SpokenError(str(error)) from error


def _message(message: Message) -> Message:
    role = message.get("role")
    if role not in ROLES:
        raise SpokenError(
            f"a message has the unknown role {role!r:.40}; use system, user, assistant or tool"
        )
    parsed: Message = {"role": role, "content": _text(message.get("content"))}
    if role == "assistant" and message.get("tool_calls"):
        parsed["tool_calls"] = [_call(call) for call in _listing(message["tool_calls"])]
    if role == "tool":
        parsed["tool_call_id"] = _string(message.get("tool_call_id"), "tool_call_id")
    return parsed


def _text(content: JSON) -> str:
    """Returns a message's content as plain text. Some scaffolds send a list of text parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(_part(part) for part in _listing(content))


def _part(part: JSON) -> str:
    if not isinstance(part, Mapping) or part.get("type") != "text":
        raise SpokenError(f"the content part {part!r:.80} is not text; send text parts only")
    return _string(part.get("text"), "text of a part")


def _call(call: JSON) -> JSON:
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
        raise SpokenError(f"the tool call {call!r:.80} has no function; name the called tool in it")
    function = call["function"]
    name, arguments = function.get("name"), function.get("arguments")
    plain = {
        "name": _string(name, "called tool's name"),
        "arguments": _string(arguments, "arguments"),
    }
    return {"id": _string(call.get("id"), "tool call's id"), "type": "function", "function": plain}


def _tool(schema: Mapping[str, JSON]) -> ToolSpec:
    function = schema.get("function")
    if not isinstance(function, Mapping):
        raise SpokenError(f"the tool {schema!r:.80} has no function; use OpenAI's form of tools")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping):
        raise SpokenError(
            f"a tool's parameters must be a JSON schema object, not {parameters!r:.80}"
        )
    name = _string(function.get("name"), "name of a tool")
    return ToolSpec(name, str(function.get("description") or ""), parameters)


def _listing(value: JSON) -> Sequence[JSON]:
    if not isinstance(value, list):
        raise SpokenError(f"tool calls and content parts must be a list, not {value!r:.80}")
    return value


def _string(value: JSON, what: str) -> str:
    if not isinstance(value, str):
        raise SpokenError(f"the {what} must be a string, not {value!r:.80}")
    return value
