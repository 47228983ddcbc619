"""OpenAI responses on the wire, as a coding agent asks for them: always as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.loopback._openai import error_body as error_body
from tests.loopback._speech import Call, Say, text_of


def parse(number: int, path: str, headers: Mapping[str, str], raw: Mapping[str, Any]) -> Call:
    """The request as a brain hears it: its input as messages."""
    messages: list[dict[str, Any]] = []
    for entry in raw.get("input", []):
        if entry.get("type", "message") == "message":
            messages.append({"role": entry["role"], "content": text_of(entry["content"])})
        elif entry["type"] == "function_call_output":
            output = entry["output"]
            text = output if isinstance(output, str) else json.dumps(output)
            messages.append({"role": "tool", "tool_call_id": entry["call_id"], "content": text})
    return Call(number, path, headers, raw, messages, raw.get("tools", []))


def events(call: Call, say: Say) -> Iterator[str]:
    """The reply as server-sent events, the last of them `response.completed`."""
    head = {"id": f"resp_{call.number}"}
    yield _event("response.created", response=head)
    output = list(_output(call, say))
    for index, entry in enumerate(output):
        yield _event("response.output_item.done", output_index=index, item=entry)
    tokens = {"input_tokens": say.input_tokens or 0, "output_tokens": say.output_tokens or 0}
    usage = {
        **tokens,
        "total_tokens": sum(tokens.values()),
        "input_tokens_details": {"cached_tokens": say.cached_tokens},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    yield _event("response.completed", response={**head, "output": output, "usage": usage})


def _output(call: Call, say: Say) -> Iterator[dict[str, Any]]:
    if say.text:
        content = [{"type": "output_text", "text": say.text, "annotations": []}]
        yield {
            "type": "message",
            "role": "assistant",
            "id": f"msg_{call.number}",
            "content": content,
        }
    for call_id, (name, _), text in zip(
        say.ids(call.number), say.tool_calls, say.arguments(), strict=True
    ):
        yield {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"
