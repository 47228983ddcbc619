"""Anthropic's form: the body of a request, and the events of a stream put together.

Messages come in OpenAI's form. System messages at the start become `system`. Tool results and user
text that follow one another become one user turn. A reply with thinking keeps its signed blocks
under `provider_blocks`, and they go back unchanged, since the provider checks their signatures.
The prompt cache is asked for at three places: after the tools, after the system prompt, and at the
end of the last turn. So a dialogue that grows is read from the cache up to its last turn.

The collector takes events as plain dicts and trusts nothing in them. It does not use the SDK's own
accumulation, which closes unfinished arguments in silence and parses them anew at every event.
Does not cover: images and documents, and tools that the provider runs itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from meta_agent.core.chat import ChatRequest, ChatStop, Effort
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON, Message
from meta_agent.llm_clients.providers._failures import malformed, of_event
from meta_agent.llm_clients.providers._reply import RawCall, RawReply, arguments_of, usage_of

OURS: Final = "anthropic"  # names our blocks in `provider_blocks`
_CACHED: Final[Mapping[str, JSON]] = {"type": "ephemeral"}
_MIN_THINKING: Final = 1024
_THINKING_TOKENS: Final[Mapping[Effort, int]] = {"low": 2048, "medium": 8192, "high": 16_384}
_NOTHING: Final = "(empty)"  # the API refuses text without a character in it
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}
_STOPS: Final[Mapping[str, ChatStop]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
# The families that take a temperature, and those among them whose thinking has a budget. Newer
# models refuse both and decide themselves how long they think.
_SAMPLED: Final = re.compile(r"^claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0156])?(?:-\d{8})?$)")
_MUTE: Final = re.compile(r"^claude-(?:2|instant|3-(?!7))")
_BUDGETED: Final = re.compile(r"^claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[015])?(?:-\d{8})?$)")

Block = dict[str, JSON]


def body_of(request: ChatRequest, model: str) -> dict[str, JSON]:
    """Returns a request as the JSON body of a streamed call of Anthropic's messages API."""
    system, turns = _turns(request.messages)
    body: dict[str, JSON] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": turns,
        "stream": True,
    }
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
    if thinking := _thinking(request, model):
        body["thinking"] = thinking
        if _decides_itself(model):
            body["output_config"] = {"effort": request.effort}
    elif _SAMPLED.match(model) or not model.startswith("claude-"):
        if request.temperature is not None:  # newer ones of these take one of the two, not both
            body["temperature"] = min(request.temperature, 1.0)
        elif request.top_p is not None:
            body["top_p"] = request.top_p
    return body | _tools(request, thinks=bool(thinking))


def _tools(request: ChatRequest, *, thinks: bool) -> dict[str, JSON]:
    if not request.tools:
        return {}
    tools: list[Block] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {"type": "object", **tool.parameters},
        }
        for tool in request.tools
    ]
    tools[-1]["cache_control"] = _CACHED
    forced = request.tool_choice == "required" and thinks  # thinking allows no forced call
    choice = "auto" if forced else _CHOICES[request.tool_choice]
    return {"tools": tools, "tool_choice": {"type": choice}}


def _thinking(request: ChatRequest, model: str) -> dict[str, JSON] | None:
    if not request.effort:
        return None
    if _decides_itself(model):
        return {"type": "adaptive"}
    budget = min(_THINKING_TOKENS[request.effort], request.max_tokens - _MIN_THINKING)
    return {"type": "enabled", "budget_tokens": budget} if budget >= _MIN_THINKING else None


def _decides_itself(model: str) -> bool:
    """Returns True if the model takes an effort, but no budget of thinking tokens."""
    return model.startswith("claude-") and not _BUDGETED.match(model)


def thinking_refusal(model: str, max_tokens: int) -> str:
    """Returns why a model cannot reason in replies of at most `max_tokens` tokens; "" if it can."""
    if _MUTE.match(model):
        return "this model does not think before it replies"
    least = 2 * _MIN_THINKING
    if max_tokens < least and not _decides_itself(model):
        return f"it thinks in replies of at least {least:,} tokens, and the limit is {max_tokens:,}"
    return ""


def _turns(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """Returns the system prompt, and the turns with a mark for the cache at their end."""
    roles = [message["role"] for message in messages]
    first = next((index for index, role in enumerate(roles) if role != "system"), len(roles))
    system = "\n\n".join(str(message["content"]) for message in messages[:first])
    turns: list[dict[str, Any]] = []
    for message in messages[first:]:
        role = "assistant" if message["role"] == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message)
    for turn in turns:
        turn["content"] = turn["content"] or [{"type": "text", "text": _NOTHING}]
    if turns and turns[-1]["role"] == "user":
        last = turns[-1]["content"]
        last[-1] = {**last[-1], "cache_control": _CACHED}
    return system, turns


def _blocks(message: Message) -> list[Block]:
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        return [{**result, "content": _text_blocks(message.get("content"))}]
    signed = message.get("provider_blocks")
    if isinstance(signed, Mapping) and OURS in signed:
        return [dict(block) for block in signed[OURS]]
    calls = [
        _tool_use(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    return [*_text_blocks(message.get("content")), *calls]


def _text_blocks(content: Any) -> list[Block]:
    if not isinstance(content, str):
        content = "".join(str(part.get("text", "")) for part in content or ())
    return [{"type": "text", "text": content}] if content.strip() else []


def _tool_use(call_id: str, name: str, arguments: str) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments_of(arguments, name)}


class Events:
    """Collects the events of one streamed reply of Anthropic's API into a `RawReply`."""

    def __init__(self) -> None:
        self._reply = RawReply()
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._open: set[int] = set()
        self._ended = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Adds one event. Raises ProviderError, or an error such as KeyError if it is malformed."""
        kind = event["type"]
        if kind == "error":
            raise of_event(event["error"])
        if kind == "message_start":
            self._start(event["message"])
        elif kind == "content_block_start":
            self._open_block(event["index"], dict(event["content_block"]))
        elif kind == "content_block_delta":
            self._grow(event["index"], event["delta"])
        elif kind == "content_block_stop":
            self._open.remove(event["index"])
        elif kind == "message_delta":
            self._reply.stop = _stop(event["delta"].get("stop_reason"))
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self._ended = True

    def finish(self) -> RawReply:
        """Returns the collected reply. Raises ProviderError if the stream ended too early."""
        reply = self._reply
        if not self._ended or self._open:
            text = "the model's reply ended before its last event"
            raise ProviderError(text, kind="stream", hint="run the same command again")
        blocks = [self._closed(index) for index in sorted(self._blocks)]
        cut = reply.stop in ("length", "refusal")
        if not cut and any("thinking" in block["type"] for block in blocks):
            reply.provider_blocks = {OURS: list(_returned(blocks))}
        reply.usage = self._final_usage()
        return reply

    def _start(self, message: Mapping[str, Any]) -> None:
        self._reply.model = message.get("model") or ""
        self._reply.request_id = message.get("id") or ""
        # Its count of output tokens is only where the count begins.
        self._count({**(message.get("usage") or {}), "output_tokens": None})

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}

    def _open_block(self, index: int, block: dict[str, Any]) -> None:
        self._blocks[index] = block
        self._pieces[index] = [block.get("text") or block.get("thinking") or ""]
        self._open.add(index)

    def _grow(self, index: int, delta: Mapping[str, Any]) -> None:
        if delta["type"] == "signature_delta":
            self._blocks[index]["signature"] = delta["signature"]
        for field in ("text", "thinking", "partial_json"):
            if delta["type"] in (f"{field}_delta", "input_json_delta") and field in delta:
                self._pieces[index].append("" + delta[field])

    def _closed(self, index: int) -> dict[str, Any]:
        """Returns a block with its text in place, after adding the text to the reply."""
        reply, block, text = self._reply, self._blocks[index], "".join(self._pieces[index])
        kind = "" + block["type"]  # raises TypeError if it is no text
        if kind == "text":
            block["text"] = text
            reply.text += text
        elif kind == "thinking":
            block["thinking"] = text
            reply.reasoning += text
        elif kind == "tool_use":
            block["arguments"] = text
            reply.calls.append(RawCall(str(block["id"]), str(block["name"]), text))
        return block

    def _final_usage(self) -> Any:
        usage = self._usage
        if "input_tokens" not in usage or "output_tokens" not in usage:
            return None
        cached = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        details = usage.get("output_tokens_details") or {}
        return usage_of(
            input_tokens=usage["input_tokens"] + cached + written,
            output_tokens=usage["output_tokens"],
            cached=cached,
            written=written,
            reasoning=details.get("thinking_tokens"),
        )


_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("type", "text"),
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
}


def _returned(blocks: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Yields the blocks that the next request has to repeat, without fields of replies alone."""
    for block in blocks:
        kind = block["type"]
        if kind == "tool_use":
            yield _tool_use(block["id"], block["name"], block["arguments"])
        elif kind in _FIELDS and (kind != "text" or block["text"].strip()):
            yield {name: block[name] for name in _FIELDS[kind]}


def _stop(reason: Any) -> ChatStop:
    if reason not in _STOPS:
        raise malformed(f"the model's reply stopped for an unknown reason: {reason!r}")
    return _STOPS[reason]
