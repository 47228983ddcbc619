"""Anthropic's form: the body of a request, and the events of a stream put together.

Messages come in OpenAI's form. System messages at the start become `system`. Tool results and user
text that follow one another become one user turn. A reply with thinking keeps its blocks under
`provider_blocks`, and they go back unchanged, since the provider checks their signatures.
The prompt cache is asked for at three places: after the tools, after the system prompt, and at the
end of the last turn. So a dialogue that grows is read from the cache up to its last turn.

The collector takes events as plain dicts and trusts nothing in them. It does not use the SDK's own
accumulation, which closes unfinished arguments in silence, parses them anew at every event, and
takes the last usage even if it is zero.
Does not cover: images and documents, and tools that the provider runs itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from meta_agent.core.chat import ChatRequest, Effort
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON, Message
from meta_agent.llm_clients.providers._failures import of_event
from meta_agent.llm_clients.providers._reply import (
    RawCall,
    RawReply,
    arguments_of,
    keep_largest,
    mapping,
    usage_of,
)

OURS: Final = "anthropic"  # names our blocks in `provider_blocks`
_CACHED: Final[Mapping[str, JSON]] = {"type": "ephemeral"}
_MIN_THINKING: Final = 1024
_THINKING_TOKENS: Final[Mapping[Effort, int]] = {"low": 2048, "medium": 8192, "high": 16_384}
_NOTHING: Final = "(empty)"  # the API refuses text without a character in it
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}
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
    calls = [_tool_use(call) for call in message.get("tool_calls") or ()]
    signed = message.get("provider_blocks")
    if isinstance(signed, Mapping) and OURS in signed:
        called = iter(calls)
        return [
            {**block, **(next(called, {}) if block["type"] == "tool_use" else {})}
            for block in signed[OURS]
        ]
    return [*_text_blocks(message.get("content")), *calls]


def _text_blocks(content: Any) -> list[Block]:
    if not isinstance(content, str):
        content = "".join(str(part.get("text", "")) for part in content or ())
    return [{"type": "text", "text": content}] if content.strip() else []


def _tool_use(call: Mapping[str, Any]) -> Block:
    name = call["function"]["name"]
    arguments = arguments_of(call["function"]["arguments"], name)
    return {"type": "tool_use", "id": call["id"], "name": name, "input": arguments}


class Events:
    """Collects the events of one streamed reply of Anthropic's API into a `RawReply`."""

    def __init__(self) -> None:
        self._reply = RawReply()
        self._counts: dict[str, int] = {}
        self._blocks: list[dict[str, Any]] = []
        self._pieces: list[list[str]] = []
        self._place: dict[Any, int] = {}  # of the open block, by the server's index
        self._ended = False

    def add(self, event: Any) -> None:
        """Adds one event. Raises ProviderError, or an error such as KeyError if it is malformed."""
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            raise of_event(event, began=bool(self._blocks))
        if kind == "message":
            self._add_whole(event)
        elif kind == "message_start":
            self._start(event["message"])
        elif kind == "content_block_start":
            self._open_block(event.get("index"), event["content_block"])
        elif kind == "content_block_delta":
            self._grow(event.get("index"), event["delta"])
        elif kind == "message_delta":
            self._reply.stop = event["delta"].get("stop_reason") or self._reply.stop
            self._count(mapping(event.get("usage")))
        elif kind == "message_stop":
            self._ended = True

    def finish(self) -> RawReply:
        """Returns the collected reply. Raises ProviderError if the stream ended too early."""
        reply = self._reply
        if not self._ended:
            text = "the model's reply ended before its last event"
            raise ProviderError(text, kind="stream", hint="run the same command again")
        blocks = [*map(self._closed, self._blocks, self._pieces)]
        reply.stop = reply.stop or (blocks and "stop") or None
        if any(block["type"] not in ("text", "tool_use") for block in blocks):
            reply.provider_blocks = {OURS: [b for b in blocks if b.get("text", b["type"]).strip()]}
        reply.usage = usage_of(self._counts)
        return reply

    def _add_whole(self, message: Mapping[str, Any]) -> None:
        """Adds a reply that a server sent without a stream."""
        self._start(message)
        self._count(mapping(message.get("usage")))
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for index, block in enumerate(parts):
            self._open_block(index, block)
        self._reply.stop, self._ended = message.get("stop_reason"), True

    def _start(self, message: Mapping[str, Any]) -> None:
        self._reply.model = message.get("model") or ""
        self._reply.request_id = message.get("id") or ""
        # Its count of output tokens is only where the count begins.
        self._count({**mapping(message.get("usage")), "output_tokens": None})

    def _count(self, usage: Mapping[str, Any]) -> None:
        keep_largest(
            self._counts,
            input=usage.get("input_tokens"),
            output=usage.get("output_tokens"),
            cached=usage.get("cache_read_input_tokens"),
            written=usage.get("cache_creation_input_tokens"),
            reasoning=mapping(usage.get("output_tokens_details")).get("thinking_tokens"),
        )

    def _open_block(self, index: Any, block: Mapping[str, Any]) -> None:
        self._place[index] = len(self._blocks)  # some servers use an index twice
        self._blocks.append({name: value for name, value in block.items() if value is not None})
        self._pieces.append([])

    def _grow(self, index: Any, delta: Mapping[str, Any]) -> None:
        kind = delta["type"].removesuffix("_delta")
        if index not in self._place and kind in ("text", "thinking"):
            self._open_block(index, {"type": kind})
        place = self._place[index]
        if kind == "signature":
            self._blocks[place]["signature"] = delta["signature"]
        for field in ("text", "thinking", "partial_json"):
            if kind in (field, "input_json") and field in delta:
                self._pieces[place].append("" + delta[field])

    def _closed(self, block: dict[str, Any], pieces: list[str]) -> dict[str, Any]:
        """Returns a block as the next request repeats it, after adding its text to the reply."""
        reply, text = self._reply, "".join(pieces)
        kind = "" + block["type"]  # raises TypeError if it is no text
        if kind in ("text", "thinking"):
            block[kind] = ("" + block.get(kind, "")) + text
        if kind == "text":
            reply.text += block["text"]
        elif kind == "thinking":
            reply.reasoning += block["thinking"]
        elif kind == "tool_use":
            # Most servers send the input in pieces, and some whole, when the block begins.
            text = text or json.dumps(block.get("input") or {})
            reply.calls.append(RawCall(block.get("id") or "", block["name"], text))
            block.pop("input", None)  # it goes back with the call
        return block
