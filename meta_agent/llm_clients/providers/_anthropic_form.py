"""Anthropic's form, said and heard: the body of a request, and a stream's events put together.

Messages come in OpenAI's form. System messages at the start become `system`; tool results and user
text that follow one another become one user turn. A reply with thinking keeps its signed blocks
under `provider_blocks` and they go back unchanged: the provider checks their signatures.
The prompt cache is asked for at three places: after the tools, after the system prompt, and at the
end of the last turn, so a dialogue that grows is read from the cache up to its last turn.

Events are taken as plain dicts and nothing in them is trusted.
Does not cover: images and documents, and tools that the provider runs itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from meta_agent.core.chat import ChatRequest, ChatStop
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON, Message
from meta_agent.llm_clients.providers._failures import malformed, of_event
from meta_agent.llm_clients.providers._validate import (
    CALL_BYTES,
    Room,
    Said,
    SaidCall,
    arguments_of,
    usage_of,
)

OURS: Final = "anthropic"  # names our blocks in `provider_blocks`
_CACHED: Final[Mapping[str, JSON]] = {"type": "ephemeral"}
_MIN_THINKING: Final = 1024
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
# The families that take a temperature, and those among them whose thinking has a budget. What
# came after refuses both and decides itself how long to think.
_SAMPLED: Final = re.compile(r"^claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0156])?(?:-\d{8})?$)")
_BUDGETED: Final = re.compile(r"^claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[015])?(?:-\d{8})?$)")

Block = dict[str, JSON]


def body_of(request: ChatRequest, model: str) -> dict[str, JSON]:
    """A streamed request."""
    system, turns = _turns(request.messages)
    body: dict[str, JSON] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": _cached_turns(turns),
        "stream": True,
    }
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
    thinking = _thinking(request, model)
    if thinking:
        body["thinking"] = thinking
    elif _SAMPLED.match(model) or not model.startswith("claude-"):
        body |= _sampling(request)
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
    if not request.thinking_tokens:
        return None
    if model.startswith("claude-") and not _BUDGETED.match(model):
        return {"type": "adaptive"}
    budget = min(request.thinking_tokens, request.max_tokens - _MIN_THINKING)
    return {"type": "enabled", "budget_tokens": budget} if budget >= _MIN_THINKING else None


def _sampling(request: ChatRequest) -> dict[str, JSON]:
    if request.temperature is not None:  # newer ones of these take one of the two, not both
        return {"temperature": min(request.temperature, 1.0)}
    return {} if request.top_p is None else {"top_p": request.top_p}


def _turns(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    first = next((i for i, message in enumerate(messages) if message["role"] != "system"), None)
    first = len(messages) if first is None else first
    system = "\n\n".join(str(message["content"]) for message in messages[:first])
    turns: list[dict[str, Any]] = []
    for message in messages[first:]:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        turn["content"] = turn["content"] or [{"type": "text", "text": _NOTHING}]
    return system, turns


def _blocks(message: Message) -> list[Block]:
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        return [{**result, "content": _text_blocks(message.get("content"))}]
    kept = message.get("provider_blocks")
    if isinstance(kept, Mapping) and OURS in kept:
        return [dict(block) for block in kept[OURS]]
    calls = [_tool_use(call) for call in message.get("tool_calls") or ()]
    return [*_text_blocks(message.get("content")), *calls]


def _text_blocks(content: Any) -> list[Block]:
    text = content if isinstance(content, str) else _joined(content or ())
    return [{"type": "text", "text": text}] if text.strip() else []


def _joined(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(str(part.get("text", "")) for part in parts)


def _tool_use(call: Mapping[str, Any]) -> Block:
    function = call["function"]
    given = arguments_of(function["arguments"], function["name"])
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}


def _cached_turns(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not turns or turns[-1]["role"] != "user":
        return turns
    *before, last = turns[-1]["content"]
    return [*turns[:-1], {**turns[-1], "content": [*before, {**last, "cache_control": _CACHED}]}]


class Events:
    """Collects one stream."""

    def __init__(self) -> None:
        self._said = Said()
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._open: set[int] = set()
        self._room = Room()
        self._ended = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Takes one event in. Raises ProviderError, or what `heard` calls an odd shape."""
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
            self._said.stop = _stop(event["delta"].get("stop_reason"))
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self._ended = True

    def finish(self) -> Said:
        """All of it, if the stream came to its end. Raises ProviderError."""
        said = self._said
        if not self._ended or self._open:
            raise ProviderError("the stream ended before its last event", kind="stream")
        for index in sorted(self._blocks):
            self._close_block(self._blocks[index], "".join(self._pieces[index]))
        said.usage = self._final_usage()
        blocks = [self._blocks[i] for i in sorted(self._blocks) if _goes_back(self._blocks[i])]
        if said.stop not in ("length", "refusal") and any("thinking" in b["type"] for b in blocks):
            said.provider_blocks = {OURS: [_kept(block) for block in blocks]}
        return said

    def _start(self, message: Mapping[str, Any]) -> None:
        self._said.model = message.get("model") or ""
        self._said.request_id = message.get("id") or ""
        # What it says of the output is where it begins: only the last count is one.
        self._count({**(message.get("usage") or {}), "output_tokens": None})

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}

    def _open_block(self, index: int, block: dict[str, Any]) -> None:
        self._room.take(CALL_BYTES + len(str(block)))
        self._blocks[index] = block
        self._pieces[index] = [block.get("text") or block.get("thinking") or ""]
        self._open.add(index)

    def _grow(self, index: int, delta: Mapping[str, Any]) -> None:
        if delta["type"] == "signature_delta":
            self._room.take(len(delta["signature"]))
            self._blocks[index]["signature"] = delta["signature"]
        for field in ("text", "thinking", "partial_json"):
            if delta["type"] in (f"{field}_delta", "input_json_delta") and field in delta:
                self._room.take(len(delta[field]))
                self._pieces[index].append("" + delta[field])

    def _close_block(self, block: dict[str, Any], text: str) -> None:
        said = self._said
        if block["type"] == "text":
            block["text"] = text
            said.text += text
        elif block["type"] == "thinking":
            block["thinking"] = text
            said.reasoning += text
        elif block["type"] == "tool_use":
            block["input_text"] = text
            said.calls.append(SaidCall(str(block["id"]), str(block["name"]), text))

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


def _goes_back(block: Mapping[str, Any]) -> bool:
    if block["type"] == "text":
        return bool(block["text"].strip())
    return block["type"] == "tool_use" or block["type"] in _FIELDS


def _kept(block: Mapping[str, Any]) -> Block:
    """A block as it must go back, without what only replies carry."""
    if block["type"] == "tool_use":
        given = arguments_of(block["input_text"], block["name"])
        return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": given}
    return {name: block[name] for name in _FIELDS[block["type"]]}


def _stop(reason: Any) -> ChatStop:
    if reason not in _STOPS:
        raise malformed(f"the reply stopped for an unknown reason: {reason!r}")
    return _STOPS[reason]
