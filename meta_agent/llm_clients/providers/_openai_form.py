"""OpenAI's form: the body of a request, and the chunks of a stream put together.

The openai and litellm providers share it, since litellm gives every provider's stream this form.
The collector takes chunks as plain dicts and trusts nothing in them. It does not use the SDK's own
accumulation, which fails at calls without an index (some servers send them), merges two calls with
one index, and drops the token ids that training needs.

Does not cover: choices other than the first (one is asked for), audio, and web search.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from meta_agent.core.chat import ChatRequest, ChatStop, ReplyTokens
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._failures import malformed, of_event
from meta_agent.llm_clients.providers._reply import RawCall, RawReply, usage_of

_STOPS: Final[Mapping[str, ChatStop]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}
# OpenAI's models that think. They refuse `temperature` and `top_p`; the chat variants take them.
REASONS: Final = re.compile(r"^(?:o\d|gpt-[5-9])(?!.*chat)")
_MOST_IDS: Final = 1 << 31
_ROUNDED: Final = 0.01  # the logarithm of a probability is above 0 only by rounding

_LOCAL_SERVERS: Final = frozenset(
    {"openai", "vllm", "hosted_vllm", "ollama", "ollama_chat", "lm_studio", "llamafile"}
    | {"llama_cpp"}
)


def body_of(request: ChatRequest, model: str) -> dict[str, JSON]:
    """Returns a request as JSON that OpenAI-compatible servers take, without a token limit."""
    body: dict[str, JSON] = {
        "model": model,
        "messages": [
            {name: value for name, value in message.items() if name != "provider_blocks"}
            for message in request.messages
        ],
    }
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
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._arguments: list[list[str]] = []  # beside `_reply.calls`
        self._call_of_index: dict[int, int] = {}
        self._prompt_ids: list[int] = []
        self._ids: list[int] = []
        self._logprobs: list[float] = []

    def finish(self) -> RawReply:
        """Returns the collected reply. Raises ProviderError if no chunk had `choices`."""
        if self._has_choices is False:
            raise malformed("the model's reply has no choices")
        reply, refusal = self._reply, "".join(self._refusal)
        reply.text = "".join(self._text) or refusal
        reply.reasoning = "".join(self._reasoning)
        for call, pieces in zip(reply.calls, self._arguments, strict=True):
            call.arguments = "".join(pieces)
        if refusal and reply.stop:
            reply.stop = "refusal"
        reply.tokens = self._tokens()
        return reply

    def add(self, chunk: Any) -> None:
        """Adds one chunk. Raises ProviderError, or an error such as KeyError if it is malformed."""
        if error := chunk.get("error"):
            raise of_event(error if isinstance(error, Mapping) else {"message": error})
        reply = self._reply
        reply.model = chunk.get("model") or reply.model
        reply.fingerprint = "" + (chunk.get("system_fingerprint") or reply.fingerprint)
        reply.request_id = chunk.get("id") or reply.request_id
        _add_ids(self._prompt_ids, chunk.get("prompt_token_ids"))
        if usage := chunk.get("usage"):
            reply.usage = _usage(usage)
        self._has_choices = self._has_choices or bool(chunk["choices"])
        for choice in chunk["choices"]:
            if not choice.get("index"):
                self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or {}
        _add_text(self._text, delta.get("content"))
        _add_text(self._reasoning, delta.get("reasoning_content") or delta.get("reasoning"))
        _add_text(self._refusal, delta.get("refusal"))
        for piece in delta.get("tool_calls") or ():
            self._add_call(piece)
        _add_ids(self._ids, choice.get("token_ids"))
        rows = (choice.get("logprobs") or {}).get("content") or ()
        self._logprobs += [float(row["logprob"]) for row in rows]
        if reason := choice.get("finish_reason"):
            self._reply.stop = _stop(reason)

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        calls, call_id, index = self._reply.calls, piece.get("id") or "", piece.get("index")
        if index is None:  # some servers send whole calls and do not count them
            index = len(self._call_of_index) if call_id else len(self._call_of_index) - 1
        place = self._call_of_index.get(index)
        if place is None or (call_id and call_id != calls[place].id):
            place = self._call_of_index[index] = len(calls)
            calls.append(RawCall(call_id))
            self._arguments.append([])
        function = piece.get("function") or {}
        calls[place].name = function.get("name") or calls[place].name
        _add_text(self._arguments[place], function.get("arguments"))

    def _tokens(self) -> ReplyTokens | None:
        """Returns the token record if it covers the whole reply, since servers may omit tokens."""
        usage, ids, logprobs = self._reply.usage, self._ids, self._logprobs
        complete = usage is not None and len(ids) == usage.output_tokens == len(logprobs)
        if not (ids and self._prompt_ids and complete):
            return None
        if not all(-math.inf < logprob < _ROUNDED for logprob in logprobs):  # NaN fails this, too
            return None
        return ReplyTokens(tuple(self._prompt_ids), tuple(ids), tuple(logprobs))


def _add_text(pieces: list[str], text: str | None) -> None:
    if text:
        pieces.append("" + text)  # raises TypeError if it is no text


def _add_ids(row: list[int], ids: Any) -> None:
    if not all(type(token_id) is int and 0 <= token_id < _MOST_IDS for token_id in ids or ()):
        raise malformed(f"the reply's token ids are not integers: {str(ids)[:120]}")
    row += ids or ()


def _usage(usage: Mapping[str, Any]) -> Any:
    read = usage.get("prompt_tokens_details") or {}
    written = usage.get("completion_tokens_details") or {}
    return usage_of(
        input_tokens=usage["prompt_tokens"],
        output_tokens=usage["completion_tokens"],
        cached=read.get("cached_tokens"),
        written=read.get("cache_creation_tokens"),
        reasoning=written.get("reasoning_tokens"),
    )


def _stop(reason: str) -> ChatStop:
    if reason not in _STOPS:
        raise malformed(f"the server gave an unknown reason for the end of its reply: {reason!r}")
    return _STOPS[reason]
