"""The one gate from what a server said to a `ChatReply`: whole, or a `ProviderError`.

A reply counts with a known stop reason, usage, and tool calls whose ids are unique, whose names are
known, and whose arguments are complete JSON objects that fit the tool's schema. What SDKs call
success (a stream that ended early, a page of HTML) does not get through here.

A reply cut by `max_tokens` is whole as far as it goes, but carries no tool calls: a list of calls
that was cut can't be told from one that was not. The same holds for a refusal.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from meta_agent.core.chat import (
    ChatReply,
    ChatRequest,
    ChatStop,
    ReplyTokens,
    ToolCall,
    ToolSpec,
    Usage,
)
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._failures import Secrets, malformed, scrubbed
from meta_agent.llm_clients.providers._schema import problems
from meta_agent.llm_clients.surrogates import mended

_TOO_MANY_TOKENS: Final = 10**12
REPLY_BYTES: Final = 16 << 20
CALL_BYTES: Final = 16 << 10  # what a tool call or a block counts at least: a thousand are enough
NUMBER_BYTES: Final = 32
_NAME_CHARS: Final = 1000
_ODD_SHAPES: Final = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What comes of plain values that do not have the form of the protocol, wherever that is met."""


@dataclass(slots=True)
class SaidCall:
    """A tool call as it came: arguments are text."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Said:
    """What a server said, collected and not yet believed."""

    text: str = ""
    reasoning: str = ""
    stop: ChatStop | None = None
    calls: list[SaidCall] = field(default_factory=list)
    usage: Usage | None = None
    model: str = ""
    fingerprint: str = ""
    request_id: str = ""
    provider_blocks: JSON = None
    tokens: ReplyTokens | None = None


def accept(said: Said, request: ChatRequest, *, seconds: float = 0.0) -> ChatReply:
    """The reply, if it is whole. Raises ProviderError (`stream` or `malformed`)."""
    if said.stop is None:
        raise ProviderError("the stream ended without a stop reason", kind="stream")
    if said.usage is None:
        raise malformed("the reply carries no token usage")
    cut = said.stop in ("length", "refusal")
    calls = () if cut else _checked(said.calls, request)
    if said.stop == "tool_calls" and not calls:
        raise malformed("the reply stopped for tool calls and holds none")
    return ChatReply(
        content=mended(said.text),
        stop="tool_calls" if calls else said.stop,
        usage=said.usage,
        model=_name(said.model, "model") or request.model,
        tool_calls=calls,
        reasoning=mended(said.reasoning),
        provider_blocks=None if cut else mended(said.provider_blocks),
        tokens=said.tokens,
        seconds=seconds,
        fingerprint=_name(said.fingerprint, "fingerprint"),
        request_id=_name(said.request_id, "id"),
    )


def _name(said: Any, what: str) -> str:
    """A name that every record of the exchange can keep."""
    if not isinstance(said, str) or len(said) > _NAME_CHARS:
        raise malformed(f"the reply's {what} is no name: {str(said)[:120]!r}")
    return str(mended(said))


class Room:
    """What one reply may take in memory: far more than any limit of tokens, and not all of it."""

    def __init__(self) -> None:
        self._left = REPLY_BYTES

    def take(self, size: int) -> None:
        """Books some bytes. Raises ProviderError."""
        self._left -= size
        if self._left < 0:
            raise malformed(f"the reply is over {REPLY_BYTES >> 20} MB")


class Collector(Protocol):
    """Puts one stream's events together. An event of another form may raise what it comes to."""

    def add(self, event: Any) -> None: ...

    def finish(self) -> Said: ...


def heard(
    events: Generator[Any, None, None],
    collector: Collector,
    request: ChatRequest,
    *,
    secrets: Secrets,
) -> ChatReply:
    """Listens to the end. Raises ProviderError, its words free of secrets and nothing chained."""
    started = time.monotonic()
    event: Any = None
    try:
        with contextlib.closing(events):  # a reply that is refused half-way is not heard out
            for event in events:
                collector.add(event)
        return accept(collector.finish(), request, seconds=time.monotonic() - started)
    except ProviderError as error:
        failure = scrubbed(error, secrets)
    except _ODD_SHAPES:
        failure = malformed(f"not the protocol's, up to {event!r}", secrets=secrets)
    raise failure


def usage_of(
    *, input_tokens: Any, output_tokens: Any, cached: Any = 0, written: Any = 0, reasoning: Any = 0
) -> Usage:
    """Usage, if every figure is a count that a ledger can add up."""
    figures = [input_tokens, output_tokens, cached or 0, written or 0, reasoning or 0]
    for figure in figures:
        whole = isinstance(figure, int) and not isinstance(figure, bool)
        if not whole or not 0 <= figure < _TOO_MANY_TOKENS:
            raise malformed(f"the reply's token usage holds {figure!r}")
    return Usage(*figures)


def arguments_of(text: str, name: str) -> Mapping[str, JSON]:
    """Arguments of a call, which must be one whole JSON object. None at all means an empty one."""
    try:
        value = mended(json.loads(text or "{}", parse_constant=_no_constant, parse_float=_finite))
    except (ValueError, RecursionError):
        raise malformed(f"the arguments of {name!r} are not JSON: {text[:120]!r}") from None
    if not isinstance(value, dict):
        raise malformed(f"the arguments of {name!r} are not a JSON object: {text[:120]!r}")
    return value


def _checked(calls: Sequence[SaidCall], request: ChatRequest) -> tuple[ToolCall, ...]:
    tools = {tool.name: tool for tool in request.tools}
    ids = [_name(call.id, "id of a tool call") for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):
        raise malformed(f"the ids of the tool calls are not unique: {ids}")
    return tuple(_checked_call(call, tools, lenient=request.lenient_tools) for call in calls)


def _checked_call(call: SaidCall, tools: Mapping[str, ToolSpec], *, lenient: bool) -> ToolCall:
    if not isinstance(call.name, str):
        raise malformed(f"a tool call's name is no text: {str(call.name)[:120]!r}")
    arguments = arguments_of(call.arguments, call.name)
    if not lenient:
        if call.name not in tools:
            raise malformed(f"no tool is called {call.name!r}; there are {', '.join(tools)}")
        wrong = next(problems(arguments, tools[call.name].parameters), None)
        if wrong is not None:
            raise malformed(f"the arguments of {call.name!r} break its schema: {wrong}")
    return ToolCall(mended(call.id), mended(call.name), arguments)


def _finite(text: str) -> float:
    """1e999 is JSON, and an infinity that no record could keep."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is out of range")
    return number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
