"""What is said to a model server and what comes back: one form for every provider.

Messages are in OpenAI's chat form: `{"role": "system"|"user"|"assistant"|"tool", "content": str}`;
an assistant's `tool_calls` are `{"id", "type": "function", "function": {"name", "arguments"}}` with
`arguments` as JSON text, and a `tool` message carries `tool_call_id`. Provider modules translate.
What a provider wants to see again unchanged (signed thinking blocks) travels in the message under
`provider_blocks` and is of no meaning to anybody else.

`Provider` is one SDK: it asks once, and either returns a reply that is whole or raises
`ProviderError`. `ModelClient` is what the rest of the program uses: it adds retries, money, the
record of every exchange, and replay. Nothing here is imported from an SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from meta_agent.core.protocols import JSON, Message, Role

ChatStop = Literal["stop", "tool_calls", "length", "refusal"]


REFUSED: Final = "the model server refuses the request"
"""Begins the failure of a rollout whose request a model server refused."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the model may call. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: its arguments parsed, an object, and valid under the tool's schema."""

    id: str
    name: str
    arguments: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one exchange as the provider counted them. `input_tokens` includes cached ones."""

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
    """One question to a model. `model` is a model string (`provider/model`)."""

    role: Role
    model: str
    messages: Sequence[Message]
    max_tokens: int
    tools: Sequence[ToolSpec] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    thinking_tokens: int | None = None  # extended thinking budget, where the provider has one
    logprobs: bool = False  # ask for token ids and logprobs, where the server gives them
    lenient_tools: bool = False
    """Unknown tool names and arguments that break the schema are returned as they are: the
    policy's mistakes belong to its scaffold. Arguments that are not JSON are never accepted."""


@dataclass(frozen=True, slots=True)
class ReplyTokens:
    """Token-level record of a reply: `prompt_ids` `[p]`, `ids` and `logprobs` (natural) `[n]`."""

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A whole reply: known stop reason, parsed arguments, usage. Less than that is an error."""

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
    def message(self) -> Message:
        """The assistant message that continues the conversation."""
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
    """One SDK and one account. Asks once: no retries, no money, no record."""

    def chat(self, request: ChatRequest) -> ChatReply:
        """Raises `ProviderError` with its `kind` for everything that is not a whole reply."""
        ...

    def close(self) -> None: ...


class ModelClient(Protocol):
    """Every model call of a run goes through one of these; any thread may call it.

    It resolves the role's model and base URL, reserves the worst case before and settles after,
    retries by the one policy, and records the exchange before it returns it.
    """

    def chat(self, request: ChatRequest, *, conversation: str, turn: int) -> ChatReply:
        """Asks, or returns what is recorded for this (conversation, turn) and request.

        `conversation` names a dialogue for the record, without the run's id: `g0/analyst`,
        `g0/c1/proposer`, `policy/<measurement>/<task>/<sample>`. `turn` counts from 0.
        Raises ProviderError, BudgetError, or (replaying, at a miss) IntegrityError.
        """
        ...
