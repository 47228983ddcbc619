"""OpenAI's form: the body of a request, and the chunks of a stream put together.

The openai and litellm providers share it, since litellm gives every provider's stream this form.
A reply that came whole, without a stream, is a chunk with a `message` in place of a `delta`.

What a server adds to a message or to a call (reasoning, thought signatures) goes back unchanged
with that message: some servers refuse a dialogue without it. It is kept under `provider_blocks`.

The collector takes chunks as plain dicts and trusts nothing in them. It does not use the SDK's own
accumulation: that fails at `choices: null` and at calls without an index (some servers send them),
drops text after a list of content parts, merges two calls of one index, takes the last usage even
if it is zero, and drops the token ids that training needs.

Does not cover: choices other than the first (one is asked for), audio, and web search.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from meta_agent.core.chat import ChatRequest, ReplyTokens
from meta_agent.core.protocols import JSON, Message
from meta_agent.llm_clients.providers._failures import malformed, of_event
from meta_agent.llm_clients.providers._reply import (
    RawCall,
    RawReply,
    keep_largest,
    mapping,
    usage_of,
)

OURS: Final = "openai"  # names our fields in `provider_blocks`
# OpenAI's models that think. They refuse `temperature` and `top_p`; the chat variants take them.
REASONS: Final = re.compile(r"^(?:o\d|gpt-[5-9])(?!.*chat)")
_MOST_IDS: Final = 1 << 31
_ROUNDED: Final = 0.01  # the logarithm of a probability is above 0 only by rounding

_LOCAL_SERVERS: Final = frozenset(
    {"openai", "vllm", "hosted_vllm", "ollama", "ollama_chat", "lm_studio", "llamafile"}
    | {"llama_cpp"}
)
# Fields of a reply that are read here, or that OpenAI itself takes in no request.
_NOT_SENT_BACK: Final = ("role", "refusal", "function_call", "annotations", "audio")
_REPEATED: Final = frozenset({"index", "type", "id", "role", "format", "name", "signature"})
"""Text fields that a chunk states anew; the others grow from chunk to chunk."""
_GROWING_PARTS: Final = ("text", "thinking")
_RECENT: Final = 8  # entries of a list that a chunk may still add to
_ERROR_FIELDS: Final = ("error", "message", "detail", "errors", "msg")


def body_of(request: ChatRequest, model: str) -> dict[str, JSON]:
    """Returns a request as JSON that OpenAI-compatible servers take, without a token limit."""
    body: dict[str, JSON] = {"model": model, "messages": [*map(_sent, request.messages)]}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in request.tools
        ]
        body["tool_choice"] = request.tool_choice
    if request.effort:
        body["reasoning_effort"] = request.effort
    knobs = {"temperature": request.temperature, "top_p": request.top_p, "seed": request.seed}
    return {**body, **{name: value for name, value in knobs.items() if value is not None}}


def _sent(message: Message) -> Message:
    """Returns a message with the fields that the server added to it."""
    sent = {name: value for name, value in message.items() if name != "provider_blocks"}
    added = {**mapping(mapping(message.get("provider_blocks")).get(OURS))}
    calls, fields_of_calls = sent.get("tool_calls", ()), added.pop("tool_calls", ())
    if len(calls) == len(fields_of_calls) > 0:
        sent["tool_calls"] = [
            {**fields, **call, "function": {**fields.get("function", {}), **call["function"]}}
            for call, fields in zip(calls, fields_of_calls, strict=True)
        ]
    return {**sent, **added}


def without_added(request: ChatRequest, refusal: str) -> ChatRequest:
    """Returns the request without the servers' own fields in messages, if `refusal` names one."""
    blocks = [mapping(message.get("provider_blocks")).get(OURS) for message in request.messages]
    names = {name for added in blocks for name in mapping(added)} - {"content", "tool_calls"}
    if not any(name in refusal for name in names):
        return request
    messages = [{**message, "provider_blocks": None} for message in request.messages]
    return replace(request, messages=messages)


def model_name(model: str) -> str:
    """Returns the name by which a server knows a model: without a prefix such as `vllm/`.

    A first part that names no kind of server is kept, as in `Qwen/Qwen3-8B`.
    """
    maker, _, name = model.partition("/")
    return name if maker in _LOCAL_SERVERS else model


class Chunks:
    """Collects the chunks of one streamed reply in OpenAI's form into a `RawReply`."""

    def __init__(self) -> None:
        self._reply = RawReply()
        self._has_choices: bool | None = None  # None: no chunk at all
        self._counts: dict[str, int] = {}
        self._message: dict[str, Any] = {"content": []}
        self._calls: list[dict[str, Any]] = []
        self._call_of_index: dict[Any, int] = {}
        self._prompt_ids: list[int] = []
        self._ids: list[int] = []
        self._logprobs: list[float] = []

    def finish(self) -> RawReply:
        """Returns the collected reply. Raises ProviderError if no chunk had `choices`."""
        if self._has_choices is False:
            raise malformed("the model's reply has no choices")
        reply, message = self._reply, _joined(self._message)
        calls = [_joined(call) for call in self._calls]
        parts, refusal = message.pop("content"), message.get("refusal") or ""
        thoughts = [part for part in parts if part.get("type", "text") != "text"]
        texts = (part for part in parts if part.get("type", "text") == "text")
        reply.text = "".join(map(_text_of, texts)) or refusal
        thought = message.get("reasoning_content") or message.get("reasoning") or ""
        reply.reasoning = thought if isinstance(thought, str) else _text_of({"text": thought})
        reply.reasoning = reply.reasoning or "".join(map(_text_of, thoughts))
        if refusal and reply.stop:
            reply.stop = "refusal"
        reply.usage = usage_of(self._counts)
        reply.tokens = self._tokens()
        reply.calls = [_taken_out(call) for call in calls]
        added = {
            "content": thoughts and parts,
            "tool_calls": calls if any(calls) else (),
            **message,
        }
        added = {name: v for name, v in added.items() if v and name not in _NOT_SENT_BACK}
        reply.provider_blocks = {OURS: added} if added else None
        return reply

    def add(self, chunk: Any) -> None:
        """Adds one chunk. Raises ProviderError, or an error such as KeyError if it is malformed."""
        choices = () if isinstance(chunk, list) else chunk.get("choices") or ()
        if isinstance(chunk, list) or any(map(chunk.get, _ERROR_FIELDS[: 1 if choices else None])):
            raise of_event(chunk, began=bool(self._has_choices))
        reply = self._reply
        reply.model = chunk.get("model") or reply.model
        reply.fingerprint = "" + (chunk.get("system_fingerprint") or reply.fingerprint)
        reply.request_id = chunk.get("id") or reply.request_id
        _add_ids(self._prompt_ids, chunk.get("prompt_token_ids"))
        self._count(chunk.get("usage"))
        self._has_choices = self._has_choices or bool(choices)
        for choice in choices:
            if not choice.get("index"):
                self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        if choice.get("error"):
            raise of_event(choice, began=bool(self._message["content"] or self._calls))
        delta = {**(choice.get("delta") or choice.get("message") or {})}
        content, calls = delta.pop("content", None) or (), delta.pop("tool_calls", None) or ()
        parts = [content] if isinstance(content, str | Mapping) else content
        parts = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
        _merge(self._message, {**delta, "content": parts})
        for piece in calls:
            self._add_call(piece)
        self._count(choice.get("usage"))
        _add_ids(self._ids, choice.get("token_ids"))
        rows = (choice.get("logprobs") or {}).get("content") or ()
        self._logprobs += [float(row["logprob"]) for row in rows]
        self._reply.stop = choice.get("finish_reason") or self._reply.stop

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Adds a piece of a tool call, or a whole call."""
        index, function = piece.get("index"), {**(piece.get("function") or {})}
        if isinstance(function.get("arguments"), Mapping):  # some servers send an object
            function["arguments"] = json.dumps(function["arguments"])
        place = len(self._calls) - 1 if index is None else self._call_of_index.get(index, -1)
        if place < 0 or _is_another(self._calls[place], piece.get("id"), function.get("name")):
            place = self._call_of_index[index] = len(self._calls)
            self._calls.append({})
        _merge(self._calls[place], {**piece, "function": function})

    def _count(self, usage: Any) -> None:
        usage = mapping(usage)
        read = mapping(usage.get("prompt_tokens_details"))
        keep_largest(
            self._counts,
            input=usage.get("prompt_tokens"),
            output=usage.get("completion_tokens"),
            total=usage.get("total_tokens"),
            cached=read.get("cached_tokens"),
            written=read.get("cache_creation_tokens"),
            reasoning=mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"),
        )

    def _tokens(self) -> ReplyTokens | None:
        """Returns the token record if it covers the whole reply, since servers may omit tokens."""
        ids, logprobs = self._ids, self._logprobs
        complete = len(ids) == self._reply.usage.output_tokens == len(logprobs)
        if not (ids and self._prompt_ids and complete):
            return None
        if not all(-math.inf < logprob < _ROUNDED for logprob in logprobs):  # NaN fails this, too
            return None
        return ReplyTokens(tuple(self._prompt_ids), tuple(ids), tuple(logprobs))


class _Pieces(list[str]):
    """A text that still grows."""


def _merge(into: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Adds what a chunk says to what the chunks before it said."""
    for name, value in delta.items():
        old = into.get(name)
        if isinstance(value, str) and name not in _REPEATED:
            if not isinstance(old, _Pieces):
                old = into[name] = _Pieces()
            old.append(value)
        elif isinstance(value, Mapping):
            if not isinstance(old, dict):
                old = into[name] = {}
            _merge(old, value)
        elif isinstance(value, list):
            if not isinstance(old, list):
                old = into[name] = []
            for item in value:
                _merge_item(old, item)
        elif value not in (None, ""):
            into[name] = value


def _merge_item(items: list[Any], item: Any) -> None:
    if not isinstance(item, Mapping):
        items.append(item)
        return
    kind, index = item.get("type"), item.get("index")
    entries = [old for old in items[-_RECENT:] if isinstance(old, dict)]
    if index is not None:
        entries = [old for old in entries if old.get("index") == index]
    elif kind not in _GROWING_PARTS or not entries or entries[-1].get("type") != kind:
        entries = []
    if not entries:
        items.append({})
    _merge(entries[-1] if entries else items[-1], item)


def _joined(value: Any) -> Any:
    """Returns a merged value as JSON."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _joined(item) for name, item in value.items()}
    return [_joined(item) for item in value] if isinstance(value, list) else value


def _text_of(part: Mapping[str, Any]) -> str:
    """Returns the text of a content part, of which a thought may hold further parts."""
    text = part.get("text") or part.get("thinking") or ""
    return "".join(map(_text_of, text)) if isinstance(text, list) else "" + text


def _is_another(call: Mapping[str, Any], call_id: Any, name: Any) -> bool:
    """Returns True if a piece with this id and name begins another call than `call`."""
    if call_id and call.get("id"):
        return bool(call_id != call["id"])
    function = _joined(call["function"])
    if not name or not function.get("name"):
        return False
    return bool(name != function["name"]) or _is_json(function.get("arguments", ""))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _taken_out(call: dict[str, Any]) -> RawCall:
    """Takes the usual fields out of a call and returns them. What is left goes back as it came."""
    function = call.pop("function")
    raw = RawCall(call.pop("id", ""), function.pop("name", ""), function.pop("arguments", ""))
    call.pop("index", None)
    call.pop("type", None)
    if function:
        call["function"] = function
    return raw


def _add_ids(row: list[int], ids: Any) -> None:
    if not all(type(token_id) is int and 0 <= token_id < _MOST_IDS for token_id in ids or ()):
        raise malformed(f"the reply's token ids are not integers: {str(ids)[:120]}")
    row += ids or ()
