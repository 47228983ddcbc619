"""Requests to a model server and its replies, in one form for every provider.

Messages are in OpenAI's chat form: `{"role": "system"|"user"|"assistant"|"tool", "content": str}`;
an assistant's `tool_calls` are `{"id", "type": "function", "function": {"name", "arguments"}}` with
`arguments` as JSON text, and a `tool` message carries `tool_call_id`. Provider modules translate.
What a provider wants back unchanged (signed thinking, reasoning, fields of its own) stands in the
message under `provider_blocks` and means nothing to anybody else.

`Provider` is one SDK: it asks once, and either returns a whole reply or raises `ProviderError`. The
rest of the program uses `ModelClient`, which adds retries, money, the record of every exchange, and
replay. Nothing here is imported from an SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

from meta_agent.core.protocols import JSON, Message, Role, Rollout, ToolEvent

ChatStop = Literal["stop", "tool_calls", "length", "refusal"]
Effort = Literal["low", "medium", "high"]


REFUSED: Final = "the model server refuses the request"
"""Begins the failure of a rollout whose request a model server refused."""


AGENT_TOOL: Final = "agent"
"""Names the one recorded event of an agent that ran as a command: the command itself."""


def ran_as_command(rollout: Rollout) -> bool:
    """Returns True if the rollout's agent was a command, whose tool calls no environment saw."""
    return [event.tool for event in rollout.tool_events] == [AGENT_TOOL]


def tool_calls_of(rollout: Rollout) -> list[ToolEvent]:
    """Returns an attempt's tool calls in order; those of a command, from its conversation."""
    if not ran_as_command(rollout):
        return rollout.tool_events
    events, _ = calls_in(rollout.messages)
    replies = sum(message.get("role") == "assistant" for message in rollout.messages)
    unseen = max(0, rollout.turns - replies)  # turns that the agent left out of its last request
    return [replace(event, turn=unseen + event.turn) for event in events]


def calls_in(messages: Sequence[Message]) -> tuple[list[ToolEvent], bool]:
    """Returns a dialogue's tool calls, and whether every result says if its call succeeded.

    Calls and results are paired by id, or by order where ids are missing. A call without a result
    was cut off with its attempt; it did not fail.
    """
    events: list[ToolEvent] = []
    waiting: dict[str, ToolEvent] = {}
    verdicts, turn = [], -1
    for message in messages:
        if message["role"] == "assistant":
            turn += 1
            for number, call in enumerate(message.get("tool_calls") or ()):
                function = call.get("function") or {}
                arguments = arguments_of(function.get("arguments"))
                event = ToolEvent(turn, str(function.get("name")), arguments, "", True)
                events.append(event)
                waiting[call.get("id") or f"#{turn}.{number}"] = event
        elif message["role"] == "tool" and waiting:
            key = message.get("tool_call_id", "")
            event = waiting.pop(key if key in waiting else next(iter(waiting)))
            event.result = str(message.get("content") or "")
            event.ok = not message.get("is_error", False)
            verdicts.append("is_error" in message)
    return events, bool(verdicts) and all(verdicts)


def arguments_of(text: JSON) -> dict[str, JSON]:
    """Returns a tool call's arguments as a dict, or {"text": text} if `text` is no JSON object."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"text": text}


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the model may call. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool. The arguments fit its schema, except after `lenient_tools=True`."""

    id: str
    name: str
    arguments: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of one model call, 0 where the server gives none.

    `input_tokens` includes those read from a cache.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0  # part of `output_tokens`

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a chat model (`model` is `provider/name`), with tools, sampling and limits."""

    role: Role
    model: str
    messages: Sequence[Message]
    max_tokens: int
    tools: Sequence[ToolSpec] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    effort: Effort | None = None  # how long a reasoning model thinks; None: as the server does
    logprobs: bool = False  # ask for token ids and logprobs, where the server gives them
    lenient_tools: bool = False
    """Return unknown tool names and arguments that break the schema as they are, since the policy's
    mistakes belong to its scaffold. Arguments that are not JSON are never accepted."""


@dataclass(frozen=True, slots=True)
class ReplyTokens:
    """Token ids of a prompt and of its reply, with the log-probability of each reply token."""

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's complete reply: text, parsed tool calls, stop reason, token usage and price."""

    content: str
    stop: ChatStop
    usage: Usage
    model: str  # as the server named itself
    tool_calls: tuple[ToolCall, ...] = ()
    usd: float | None = None  # None: the price is unknown
    reasoning: str = ""
    provider_blocks: JSON = None
    tokens: ReplyTokens | None = None
    seconds: float = 0.0
    replayed: bool = False  # it came from a record: nothing was asked or paid now
    fingerprint: str = ""  # of what serves the model, where the server tells it
    request_id: str = field(default="", compare=False)  # the provider's, for its support

    @property
    def counted(self) -> bool:
        """Returns True if the server said how many tokens the prompt and the reply have."""
        spoke = self.content or self.reasoning or self.tool_calls
        return self.usage.input_tokens > 0 and (self.usage.output_tokens > 0 or not spoke)

    @property
    def message(self) -> Message:
        """Returns the reply as an assistant message, to append to the conversation."""
        message: Message = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": json.dumps(call.arguments, ensure_ascii=False),
                    },
                }
                for call in self.tool_calls
            ]
        if self.provider_blocks is not None:
            message["provider_blocks"] = self.provider_blocks
        return message


class Provider(Protocol):
    """One account at a model provider. It sends each request once and records nothing."""

    def chat(self, request: ChatRequest) -> ChatReply:
        """Sends a request and returns the complete reply, or raises ProviderError."""
        ...

    def close(self) -> None: ...


class ModelClient(Protocol):
    """Makes every call of a run to a model server. Any thread may use it.

    A request names a role, such as the policy, whose model and address the settings hold. The
    highest price is reserved before the call and settled afterwards. Failed calls are retried.
    """

    def chat(self, request: ChatRequest, *, conversation: str, turn: int) -> ChatReply:
        """Returns the model's reply, or the recorded one if the request was made before.

        `conversation` names a dialogue for the record, such as `g0/analyst` or `g0/c1/proposer`;
        `turn` counts its requests from 0. Raises ProviderError, BudgetError, or IntegrityError if a
        replayed run has no record of the turn.
        """
        ...
