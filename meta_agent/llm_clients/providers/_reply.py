"""The one gate from what a server sends to a `ChatReply`: it is whole, or it is a `ProviderError`.

A reply counts if it has a known stop reason, usage, and tool calls with unique ids whose arguments
are complete JSON objects. What an SDK takes for success (a stream that ended early, a page of HTML)
does not get through here. With `lenient_tools` off, the tool must be one of the request's and the
arguments must fit its schema.

A reply cut by `max_tokens` is whole as far as it goes, but loses its tool calls: nobody can tell
whether the list of calls was cut. The same holds for a refusal.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from meta_agent.core.ledger.waiting import moved
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._connection import Timeouts, limited_request
from meta_agent.llm_clients.providers._failures import (
    malformed,
    of_exception,
    our_error,
    reworded,
    scrub,
)
from meta_agent.llm_clients.surrogates import mended

_TOO_MANY_TOKENS: Final = 10**12
_NAME_CHARS: Final = 1000


@dataclass(slots=True)
class RawCall:
    """A tool call as the server sent it, not yet checked; its arguments are JSON text."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class RawReply:
    """A reply that was put together from a server's stream and is not yet checked."""

    text: str = ""
    reasoning: str = ""
    stop: ChatStop | None = None
    calls: list[RawCall] = field(default_factory=list)
    usage: Usage | None = None
    model: str = ""
    fingerprint: str = ""
    request_id: str = ""
    provider_blocks: JSON = None
    tokens: ReplyTokens | None = None


class Collector(Protocol):
    """Puts a reply together from a stream's events. A malformed event may raise any error."""

    def add(self, event: Any) -> None: ...

    def finish(self) -> RawReply: ...


def read_reply(
    open_stream: Callable[[], Iterable[Any]],
    collector: Collector,
    request: ChatRequest,
    *,
    timeouts: Timeouts,
    secrets: Sequence[str],
    sdk_failure: Callable[[Exception, bool], ProviderError | None],
) -> ChatReply:
    """Sends one request and returns the complete reply.

    Args:
        open_stream: sends the request and returns the events of the reply.
        collector: puts the events together.
        request: the request, against which the reply is checked.
        timeouts: the time limits of the request.
        secrets: strings, such as the API key, that are cut out of errors.
        sdk_failure: turns an exception of the SDK into an error, or returns None for another
            exception. Its second argument says whether events had arrived.

    Raises:
        ProviderError: for every failure. No exception of the SDK is chained to it.
    """
    started, began = time.monotonic(), False
    with limited_request(timeouts):
        try:
            for event in open_stream():
                began = True
                moved()  # the call makes progress
                collector.add(event)
            return accept(collector.finish(), request, seconds=time.monotonic() - started)
        except Exception as error:
            failure = our_error(error) or sdk_failure(error, began)
            failure = failure or of_exception(error, began=began)
    raise reworded(failure, scrub(str(failure), secrets))


def accept(raw: RawReply, request: ChatRequest, *, seconds: float = 0.0) -> ChatReply:
    """Returns the checked reply; `seconds` is how long it took.

    Raises ProviderError of kind `stream` or `malformed` if the reply is incomplete or invalid.
    """
    if raw.stop is None:
        text = "the model's reply ended without a stop reason"
        raise ProviderError(text, kind="stream", hint="run the same command again")
    if raw.usage is None:
        raise malformed("the model's reply does not say how many tokens it used")
    cut = raw.stop in ("length", "refusal")
    calls = () if cut else _checked_calls(raw.calls, request)
    if raw.stop == "tool_calls" and not calls:
        raise malformed("the model's reply stopped for tool calls, but has none")
    return ChatReply(
        content=mended(raw.text),
        stop="tool_calls" if calls else raw.stop,
        usage=raw.usage,
        model=_name(raw.model, "model") or request.model,
        tool_calls=calls,
        reasoning=mended(raw.reasoning),
        provider_blocks=None if cut else mended(raw.provider_blocks),
        tokens=raw.tokens,
        seconds=seconds,
        fingerprint=_name(raw.fingerprint, "fingerprint"),
        request_id=_name(raw.request_id, "id"),
    )


def usage_of(
    *, input_tokens: Any, output_tokens: Any, cached: Any = 0, written: Any = 0, reasoning: Any = 0
) -> Usage:
    """Returns token counts as a `Usage`. Raises ProviderError if one is no plausible count.

    `cached` counts input tokens read from the provider's cache, `written` those put into it.
    """
    figures = [input_tokens, output_tokens, cached or 0, written or 0, reasoning or 0]
    for figure in figures:
        whole = isinstance(figure, int) and not isinstance(figure, bool)
        if not whole or not 0 <= figure < _TOO_MANY_TOKENS:
            raise malformed(f"the token usage of the model's reply holds {figure!r}")
    return Usage(*figures)


def arguments_of(text: str, name: str) -> Mapping[str, JSON]:
    """Parses the JSON arguments in a call of the tool `name`. Empty text means no arguments.

    Raises ProviderError if the text is not one whole JSON object.
    """
    try:
        value = mended(json.loads(text or "{}", parse_constant=_no_constant, parse_float=_finite))
    except (ValueError, RecursionError):
        raise malformed(
            f"the arguments of the tool {name!r} are not JSON: {text[:120]!r}"
        ) from None
    if not isinstance(value, dict):
        raise malformed(f"the arguments of the tool {name!r} are not an object: {text[:120]!r}")
    return value


def _name(value: Any, what: str) -> str:
    """Returns a name that a record can keep. Raises ProviderError if the value is none."""
    if not isinstance(value, str) or len(value) > _NAME_CHARS:
        raise malformed(f"the {what} in the model's reply is not a name: {str(value)[:120]!r}")
    return str(mended(value))


def _checked_calls(calls: Sequence[RawCall], request: ChatRequest) -> tuple[ToolCall, ...]:
    tools = {tool.name: tool for tool in request.tools}
    ids = [_name(call.id, "id of a tool call") for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):
        raise malformed(f"two tool calls of the model's reply have the same id: {ids}")
    return tuple(_checked_call(call, tools, lenient=request.lenient_tools) for call in calls)


def _checked_call(call: RawCall, tools: Mapping[str, ToolSpec], *, lenient: bool) -> ToolCall:
    name = _name(call.name, "name of a tool call")
    arguments = arguments_of(call.arguments, name)
    if not lenient:
        if name not in tools:
            raise malformed(f"the model called a tool {name!r}; there are only {', '.join(tools)}")
        _require_fit(arguments, tools[name])
    return ToolCall(mended(call.id), name, arguments)


def _require_fit(arguments: Mapping[str, JSON], tool: ToolSpec) -> None:
    from jsonschema import Draft202012Validator  # takes a tenth of a second, and few calls need it

    error = next(Draft202012Validator(tool.parameters).iter_errors(arguments), None)
    if error is not None:
        message = f"{error.json_path}: {error.message}"
        raise malformed(f"the arguments of the tool {tool.name!r} break its schema: {message}")


def _finite(text: str) -> float:
    """Parses a number. Raises ValueError for 1e999, an infinity that no record could keep."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is out of range")
    return number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
