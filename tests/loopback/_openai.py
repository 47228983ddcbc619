"""OpenAI chat completions on the wire: parse a request, write a reply as JSON or as events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.loopback._speech import Call, Fault, Say, pieces_of


def parse(number: int, path: str, headers: Mapping[str, str], raw: Mapping[str, Any]) -> Call:
    """The request as a brain hears it."""
    return Call(number, path, headers, raw, raw.get("messages", []), raw.get("tools", []))


def error_body(fault: Fault) -> Any:
    """An error reply's body."""
    error_type = fault.error_type or {401: "invalid_api_key", 404: "model_not_found"}.get(
        fault.code
    )
    error = {"message": fault.message, "type": "error", "param": None, "code": error_type}
    return {"error": error}


def empty(call: Call) -> Any:
    """A reply without choices."""
    return {**_head(call, Say(), "chat.completion"), "choices": [], "usage": _usage(call, Say())}


def whole(call: Call, say: Say) -> Any:
    """The reply as one JSON object."""
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
    message["refusal"] = say.refusal or None
    if say.thinking:
        message["reasoning_content"] = say.thinking
    if say.tool_calls:
        message["tool_calls"] = _calls(call, say)
    choice = {"index": 0, "message": message, "finish_reason": _stop(say)}
    body = {**_head(call, say, "chat.completion"), "choices": [choice]}
    if call.raw.get("logprobs"):
        choice["logprobs"] = _logprobs(*say.tokens())
    if call.raw.get("return_token_ids"):
        body["prompt_token_ids"] = _prompt_ids(call)
        choice["token_ids"] = say.tokens()[0]
    if say.usage:
        body["usage"] = _usage(call, say)
    return body


def events(call: Call, say: Say) -> Iterator[str]:
    """The reply as server-sent events, the last of them `[DONE]`."""
    head = _head(call, say, "chat.completion.chunk")
    for number, delta in enumerate(_deltas(call, say)):
        choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        chunk = {**head, "choices": [choice]}
        if number == 0:
            _add_tokens(call, say, chunk, choice)
        yield _event(chunk)
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _stop(say)}]})
    if say.usage and call.raw.get("stream_options", {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _usage(call, say)})
    yield "data: [DONE]\n\n"


def error_event(fault: Fault) -> str:
    """An error inside a stream."""
    return _event({"error": {"message": "loopback broke off", "type": fault.error_type}})


def _event(data: Any) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _deltas(call: Call, say: Say) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in pieces_of(say.thinking):
        yield {"reasoning_content": piece}
    for piece in pieces_of(say.text):
        yield {"content": piece}
    for piece in pieces_of(say.refusal):
        yield {"refusal": piece}
    for index, whole_call in enumerate(_calls(call, say)):
        function = whole_call["function"]
        start = {**whole_call, "function": {"name": function["name"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **start}]}
        for piece in pieces_of(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _calls(call: Call, say: Say) -> list[dict[str, Any]]:
    return [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, (name, _), arguments in zip(
            say.ids(call.number), say.tool_calls, say.arguments(), strict=True
        )
    ]


def _stop(say: Say) -> str:
    return say.stop or ("tool_calls" if say.tool_calls else "stop")


def _head(call: Call, say: Say, kind: str) -> dict[str, Any]:
    name = say.model or call.model
    head = {"id": f"chatcmpl-{call.number}", "object": kind, "created": 1, "model": name}
    return head | ({"system_fingerprint": say.fingerprint} if say.fingerprint else {})


def _add_tokens(call: Call, say: Say, chunk: dict[str, Any], choice: dict[str, Any]) -> None:
    ids, logprobs = say.tokens()
    if call.raw.get("logprobs"):
        choice["logprobs"] = _logprobs(ids, logprobs)
    if call.raw.get("return_token_ids"):
        chunk["prompt_token_ids"] = _prompt_ids(call)
        choice["token_ids"] = ids


def _logprobs(ids: list[int], logprobs: list[float]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in zip(ids, logprobs, strict=True)
    ]
    return {"content": rows}


def _prompt_ids(call: Call) -> list[int]:
    return list(json.dumps(call.raw["messages"]).encode())[:64]


def _usage(call: Call, say: Say) -> dict[str, Any]:
    length = len(json.dumps(call.raw.get("messages", [])))
    prompt = say.input_tokens if say.input_tokens is not None else length // 4
    output = (
        say.output_tokens if say.output_tokens is not None else max(1, len(say.tokens()[0]) // 4)
    )
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": say.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": say.reasoning_tokens},
    }
