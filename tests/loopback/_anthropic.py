"""Anthropic messages on the wire: parse a request, write a reply as JSON or as events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.loopback._speech import Call, Fault, Say, pieces_of, text_of

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def parse(number: int, path: str, headers: Mapping[str, str], raw: Mapping[str, Any]) -> Call:
    """The request as a brain hears it: messages and tools in OpenAI form."""
    messages: list[dict[str, Any]] = []
    if raw.get("system"):
        messages.append({"role": "system", "content": text_of(raw["system"])})
    for message in raw.get("messages", []):
        messages.extend(_messages(message))
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool.get("input_schema", {}),
            },
        }
        for tool in raw.get("tools", [])
    ]
    return Call(number, path, headers, raw, messages, tools)


def _messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message["content"]
    if isinstance(content, str):
        yield {"role": message["role"], "content": content}
        return
    for block in content:
        if block["type"] == "tool_result":
            text = text_of(block.get("content"))
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
    text = "".join(block["text"] for block in content if block["type"] == "text")
    calls = [_openai_call(block) for block in content if block["type"] == "tool_use"]
    if calls:
        yield {"role": message["role"], "content": text, "tool_calls": calls}
    elif text:
        yield {"role": message["role"], "content": text}


def _openai_call(block: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": json.dumps(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def error_body(fault: Fault) -> Any:
    """An error reply's body."""
    error_type = fault.error_type or _ERROR_TYPES.get(fault.code, "api_error")
    return {"type": "error", "error": {"type": error_type, "message": fault.message}}


def empty(call: Call) -> Any:
    """A reply without content."""
    return whole(call, Say(stop="end_turn"))


def whole(call: Call, say: Say) -> Any:
    """The reply as one JSON object."""
    blocks = [_with_input(block, text) for block, text in _blocks(call, say)]
    body = {**_head(call, say), "content": blocks, "stop_reason": _stop(say)}
    if say.usage:
        body["usage"] = _usage(call, say)
    return body


def events(call: Call, say: Say) -> Iterator[str]:
    """The reply as server-sent events, the last of them `message_stop`."""
    usage = {**_usage(call, say), "output_tokens": 1}
    start = {**_head(call, say), "content": [], "stop_reason": None}
    yield _event("message_start", message={**start, **({"usage": usage} if say.usage else {})})
    yield _event("ping")
    for index, (block, text) in enumerate(_blocks(call, say)):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in _deltas(block, text):
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    final = {"usage": {"output_tokens": _usage(call, say)["output_tokens"]}} if say.usage else {}
    stop = {"stop_reason": _stop(say), "stop_sequence": None}
    yield _event("message_delta", delta=stop, **final)
    yield _event("message_stop")


def error_event(fault: Fault) -> str:
    """An error inside a stream."""
    return _event("error", error={"type": fault.error_type, "message": "loopback broke off"})


def _event(event_type: str, **data: Any) -> str:
    return f"event: {event_type}\ndata: {json.dumps({'type': event_type, **data})}\n\n"


def _blocks(call: Call, say: Say) -> Iterator[tuple[dict[str, Any], str]]:
    """Blocks as they start, each with the text that its deltas carry."""
    if say.thinking:
        yield {"type": "thinking", "thinking": "", "signature": ""}, say.thinking
    if say.text or say.refusal:
        yield {"type": "text", "text": ""}, say.text or say.refusal
    for call_id, (name, _), text in zip(
        say.ids(call.number), say.tool_calls, say.arguments(), strict=True
    ):
        yield {"type": "tool_use", "id": call_id, "name": name, "input": {}}, text


def _deltas(block: Mapping[str, Any], text: str) -> Iterator[dict[str, Any]]:
    if block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces_of(text))
        yield {"type": "signature_delta", "signature": signature(text)}
    elif block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in pieces_of(text))
    else:
        yield from ({"type": "input_json_delta", "partial_json": p} for p in pieces_of(text))


def signature(thinking: str) -> str:
    """A stand-in for the provider's signature: it must come back with the text unchanged."""
    return f"signed:{len(thinking)}"


def _with_input(block: dict[str, Any], text: str) -> dict[str, Any]:
    if block["type"] == "thinking":
        return {**block, "thinking": text, "signature": signature(text)}
    return (
        {**block, "text": text} if block["type"] == "text" else {**block, "input": json.loads(text)}
    )


def _stop(say: Say) -> str:
    if say.stop or say.refusal:
        return say.stop or "refusal"
    return "tool_use" if say.tool_calls else "end_turn"


def _head(call: Call, say: Say) -> dict[str, Any]:
    name = say.model or call.model
    return {"id": f"msg_{call.number}", "type": "message", "role": "assistant", "model": name}


def _usage(call: Call, say: Say) -> dict[str, Any]:
    """Anthropic's `input_tokens` leaves out what was read from, or written to, the cache."""
    length = len(json.dumps(call.raw.get("messages", []))) // 4
    prompt = say.input_tokens if say.input_tokens is not None else length
    output = say.output_tokens if say.output_tokens is not None else max(1, len(say.text) // 4)
    return {
        "input_tokens": max(0, prompt - say.cached_tokens - say.cache_write_tokens),
        "output_tokens": output,
        "cache_read_input_tokens": say.cached_tokens,
        "cache_creation_input_tokens": say.cache_write_tokens,
    }
