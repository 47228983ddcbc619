"""OpenAI's form, said and heard: the body of a request, and a stream's chunks put together.

Shared by the openai and litellm providers, since litellm gives every provider's stream this form.
Chunks are taken as plain dicts and nothing in them is trusted: a shape that is not the protocol's
is a `malformed` ProviderError.

Does not cover: choices other than the first (one is asked for), audio, and web search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from meta_agent.core.chat import ChatRequest, ChatStop, ReplyTokens
from meta_agent.core.protocols import JSON, Message
from meta_agent.llm_clients.providers._failures import malformed, of_event
from meta_agent.llm_clients.providers._validate import (
    CALL_BYTES,
    NUMBER_BYTES,
    Room,
    Said,
    SaidCall,
    usage_of,
)

_STOPS: Final[Mapping[str, ChatStop]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}

_MOST_IDS: Final = 1 << 31
_ROUNDED: Final = 0.01  # no logarithm of a probability is above 0 but by rounding

_NOT_IN_NAMES: Final = frozenset(
    {
        "openai",
        "vllm",
        "hosted_vllm",
        "ollama",
        "ollama_chat",
        "lm_studio",
        "llamafile",
        "llama_cpp",
    }
)


def body_of(request: ChatRequest, model: str) -> dict[str, JSON]:
    """What every OpenAI-compatible server understands, but for the limit of tokens."""
    body: dict[str, JSON] = {
        "model": model,
        "messages": [_plain(message) for message in request.messages],
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
    knobs = {"temperature": request.temperature, "top_p": request.top_p, "seed": request.seed}
    return {**body, **{name: value for name, value in knobs.items() if value is not None}}


def model_name(model: str) -> str:
    """The name that the server knows: without our prefix, or that of a kind of local server.

    Other first parts belong to the name, as in `Qwen/Qwen3-8B`.
    """
    maker, _, name = model.partition("/")
    return name if maker in _NOT_IN_NAMES else model


def _plain(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "provider_blocks"}


class Chunks:
    """Collects one stream."""

    def __init__(self) -> None:
        self.said = Said()
        self._has_choices: bool | None = None  # None: no chunk at all
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._arguments: list[list[str]] = []  # beside `said.calls`
        self._open: dict[int, int] = {}  # a server's index to ours
        self._prompt_ids: list[int] = []
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._room = Room()

    def finish(self) -> Said:
        """All of it, as far as it came. Raises ProviderError where nothing was said."""
        if self._has_choices is False:
            raise malformed("the reply holds no choices")
        said = self.said
        refusal = "".join(self._refusal)
        said.text = "".join(self._text) or refusal
        said.reasoning = "".join(self._reasoning)
        for call, pieces in zip(said.calls, self._arguments, strict=True):
            call.arguments = "".join(pieces)
        if refusal and said.stop:
            said.stop = "refusal"
        said.tokens = self._tokens()
        return said

    def add(self, chunk: Any) -> None:
        """Takes one chunk in. Raises ProviderError, or what `heard` calls an odd shape."""
        if chunk.get("error"):
            error = chunk["error"]
            fields = error if isinstance(error, Mapping) else {"message": error}
            raise of_event(fields)
        self.said.model = chunk.get("model") or self.said.model
        self.said.fingerprint = "" + (chunk.get("system_fingerprint") or self.said.fingerprint)
        self.said.request_id = chunk.get("id") or self.said.request_id
        self._add_ids(self._prompt_ids, chunk.get("prompt_token_ids"))
        if chunk.get("usage"):
            self._add_usage(chunk["usage"])
        self._has_choices = self._has_choices or bool(chunk["choices"])
        for choice in chunk["choices"]:
            if not choice.get("index"):
                self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or {}
        self._put(self._text, delta.get("content"))
        self._put(self._reasoning, delta.get("reasoning_content") or delta.get("reasoning"))
        self._put(self._refusal, delta.get("refusal"))
        for piece in delta.get("tool_calls") or ():
            self._add_call(piece)
        self._add_ids(self._ids, choice.get("token_ids"))
        rows = (choice.get("logprobs") or {}).get("content") or ()
        self._numbers(self._logprobs, [float(row["logprob"]) for row in rows])
        if choice.get("finish_reason"):
            self.said.stop = _stop(choice["finish_reason"])

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        call_id = piece.get("id") or ""
        index = piece.get("index")
        if index is None:  # some servers send whole calls and do not count them
            index = len(self._open) if call_id else len(self._open) - 1
        place = self._open.get(index)
        if place is None or (call_id and call_id != self.said.calls[place].id):
            self._room.take(CALL_BYTES)
            place = self._open[index] = len(self.said.calls)
            self.said.calls.append(SaidCall(call_id))
            self._arguments.append([])
        function = piece.get("function") or {}
        call = self.said.calls[place]
        call.name = function.get("name") or call.name
        self._put(self._arguments[place], function.get("arguments"))

    def _put(self, pieces: list[str], text: str | None) -> None:
        if text:
            self._room.take(len(text))
            pieces.append("" + text)  # TypeError where it is no text

    def _add_ids(self, row: list[int], more: Any) -> None:
        if not all(type(one) is int and 0 <= one < _MOST_IDS for one in more or ()):
            raise malformed(f"the reply's token ids are none: {str(more)[:120]}")
        self._numbers(row, more)

    def _numbers(self, row: list[Any], more: list[Any] | None) -> None:
        if more:
            self._room.take(NUMBER_BYTES * len(more))
            row += more

    def _add_usage(self, usage: Mapping[str, Any]) -> None:
        read = usage.get("prompt_tokens_details") or {}
        made = usage.get("completion_tokens_details") or {}
        self.said.usage = usage_of(
            input_tokens=usage["prompt_tokens"],
            output_tokens=usage["completion_tokens"],
            cached=read.get("cached_tokens"),
            written=read.get("cache_creation_tokens"),
            reasoning=made.get("reasoning_tokens"),
        )

    def _tokens(self) -> ReplyTokens | None:
        """The token record, only if it covers the whole reply: servers may hold tokens back."""
        usage = self.said.usage
        whole = usage is not None and len(self._ids) == usage.output_tokens
        if not self._ids or not self._prompt_ids or not whole:
            return None
        known = all(-math.inf < one < _ROUNDED for one in self._logprobs)  # nor is NaN
        if len(self._ids) != len(self._logprobs) or not known:
            return None
        return ReplyTokens(tuple(self._prompt_ids), tuple(self._ids), tuple(self._logprobs))


def _stop(reason: str) -> ChatStop:
    if reason not in _STOPS:
        raise malformed(f"the reply stopped for an unknown reason: {reason!r}")
    return _STOPS[reason]
