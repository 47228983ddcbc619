"""The one gate from what a server sends to a `ChatReply`: it is whole, or it is a `ProviderError`.

A reply counts if it has a stop reason, and tool calls whose arguments are complete JSON objects.
What an SDK takes for success (a stream that ended early, a page of HTML) does not get through here.
With `lenient_tools` off, the tool must be one of the request's and the arguments must fit its
schema.

A reply cut by `max_tokens` is whole as far as it goes, but loses its tool calls: nobody can tell
whether the list of calls was cut. The same holds for a refusal.

Servers differ in words, not in kinds: `stop_of` sorts any stop reason by the words in it. Token
counts that are missing or impossible are 0 here; the caller then counts the most that the call may
have taken.
"""

from __future__ import annotations

import json
import math
import re
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
from meta_agent.llm_clients.providers._connection import RequestTimeouts, limited_request
from meta_agent.llm_clients.providers._events import WHOLE
from meta_agent.llm_clients.providers._failures import malformed, of_exception, our_error, reworded
from meta_agent.llm_clients.scrubber import Scrubber
from meta_agent.llm_clients.surrogates import mended

_TOO_MANY_TOKENS: Final = 10**12
_NAME_CHARS: Final = 1000

# What the words of a stop reason mean, in this order. The first pattern names no whole reply.
_STOPS: Final[Mapping[str, ChatStop | None]] = {
    r"err|abort|cancel|interrupt|fail|malform|unexpect|insufficient|unavail|timeout": None,
    r"filter|refus|safety|block|prohibit|sensitive|recit|spii|guardrail|moderat": "refusal",
    r"length|max|limit|exceed|context|budget|trunc|repetition": "length",
    r"tool|function": "tool_calls",
    r"stop|end|eos|eot|complete|done|finish": "stop",
}


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
    stop: str | None = None
    """The server's own word for why the reply ended."""
    calls: list[RawCall] = field(default_factory=list)
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
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
    timeouts: RequestTimeouts,
    scrubber: Scrubber,
    sdk_failure: Callable[[Exception, bool], ProviderError | None],
) -> ChatReply:
    """Sends one request and returns the complete reply.

    Args:
        open_stream: sends the request and returns the events of the reply, and `WHOLE` at its end
            if the server says so.
        collector: puts the events together.
        request: the request, against which the reply is checked.
        timeouts: the time limits of the request.
        scrubber: takes secrets, such as the API key, out of errors.
        sdk_failure: turns an exception of the SDK into an error, or returns None for another
            exception. Its second argument says whether events had arrived.

    Raises:
        ProviderError: for every failure. No exception of the SDK is chained to it.
    """
    started, began, is_whole = time.monotonic(), False, False
    with limited_request(timeouts):
        try:
            for event in open_stream():
                if event is WHOLE:
                    is_whole = True
                    continue
                began = True
                moved()  # the call makes progress
                collector.add(event)
            raw = collector.finish()
            if raw.stop is None and is_whole and (raw.text or raw.calls):
                raw.stop = "stop"  # some servers give no reason at all
            return accept(raw, request, seconds=time.monotonic() - started)
        except Exception as error:
            failure = our_error(error) or sdk_failure(error, began)
            failure = failure or of_exception(error, began=began)
    raise reworded(failure, scrubber.error(str(failure)))


def accept(raw: RawReply, request: ChatRequest, *, seconds: float = 0.0) -> ChatReply:
    """Returns the checked reply; `seconds` is how long it took.

    Raises ProviderError of kind `stream` or `malformed` if the reply is incomplete or invalid.
    """
    if raw.stop is None:
        text = "the model's reply ended without a stop reason"
        raise ProviderError(text, kind="stream", hint="run the same command again")
    stop = stop_of(raw.stop, said_something=bool(raw.text or raw.reasoning or raw.calls))
    cut = stop in ("length", "refusal")
    calls = () if cut else _checked_calls(raw.calls, request)
    if stop == "tool_calls" and not calls:
        raise malformed("the model's reply stopped for tool calls, but has none")
    return ChatReply(
        content=mended(raw.text),
        stop="tool_calls" if calls else stop,
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


def stop_of(reason: str, *, said_something: bool) -> ChatStop:
    """Returns the kind of a stop reason. One of unknown words counts as `stop` if there is a reply.

    Raises ProviderError if the reason says that the reply is not whole, or nothing at all.
    """
    if not isinstance(reason, str):
        raise malformed(f"the stop reason of the model's reply is no text: {str(reason)[:120]}")
    for words, stop in _STOPS.items():
        if re.search(words, reason, re.IGNORECASE):
            if stop is None:
                text = f"the server broke its reply off, for the reason {reason[:120]!r}"
                raise ProviderError(text, kind="stream", hint="run the same command again")
            return stop
    if not said_something:
        raise malformed(f"an empty reply stopped for an unknown reason: {reason[:120]!r}")
    return "stop"


def mapping(value: Any) -> Mapping[str, Any]:
    """Returns the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def keep_largest(counts: dict[str, int], **figures: Any) -> None:
    """Raises each of the token counts to a newer figure, and skips what is no count.

    Usage grows during a stream, and some servers end it with zeros.
    """
    for name, figure in figures.items():
        if type(figure) is int and 0 <= figure < _TOO_MANY_TOKENS:
            counts[name] = max(counts.get(name, 0), figure)


def usage_of(counts: Mapping[str, int]) -> Usage:
    """Returns token counts as a `Usage`, in which an unknown count is 0.

    `counts` holds some of `input`, `output`, `total`, `cached`, `written` (into the provider's
    cache) and `reasoning`. Some servers count reasoning beside the output, and cached tokens beside
    the input. Then the parts exceed the whole, or the total exceeds the sum.
    """
    cached, written = counts.get("cached", 0), counts.get("written", 0)
    read, output = counts.get("input", 0), counts.get("output", 0)
    if cached + written > read:
        read += cached + written
    reasoning = counts.get("reasoning", 0)
    if read:
        output = max(output, counts.get("total", 0) - read)
    if reasoning > output:
        output += reasoning
    return Usage(read, output, cached, written, reasoning)


def arguments_of(text: str, name: str) -> Mapping[str, JSON]:
    """Parses the JSON arguments in a call of the tool `name`. Empty text or null means none.

    Some servers send the object as a JSON text within the JSON text. Raises ProviderError if the
    text is not one whole JSON object.
    """
    try:
        value = _parsed(text or "{}")
        value = mended(_parsed(value) if isinstance(value, str) else value)
    except (ValueError, RecursionError):
        raise malformed(
            f"the arguments of the tool {name!r} are not JSON: {text[:120]!r}"
        ) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(f"the arguments of the tool {name!r} are not an object: {text[:120]!r}")
    return value


def _name(value: Any, what: str) -> str:
    """Returns a name that a record can keep. Raises ProviderError if the value is none."""
    if not isinstance(value, str) or len(value) > _NAME_CHARS:
        raise malformed(f"the {what} in the model's reply is not a name: {str(value)[:120]!r}")
    return str(mended(value))


def _checked_calls(calls: Sequence[RawCall], request: ChatRequest) -> tuple[ToolCall, ...]:
    """Returns the checked calls. A missing or repeated id is replaced by one of our own."""
    tools, used = {tool.name: tool for tool in request.tools}, set[str]()
    checked = []
    for number, call in enumerate(calls):
        call_id = _name(call.id, "id of a tool call")
        if not call_id or call_id in used:
            call_id = f"call_{len(request.messages)}_{number}"  # no other turn has that number
        used.add(call_id)
        checked.append(_checked_call(call, call_id, tools, lenient=request.lenient_tools))
    return tuple(checked)


def _checked_call(
    call: RawCall, call_id: str, tools: Mapping[str, ToolSpec], *, lenient: bool
) -> ToolCall:
    name = _name(call.name, "name of a tool call")
    arguments = arguments_of(call.arguments, name)
    if not lenient:
        if name not in tools:
            raise malformed(f"the model called a tool {name!r}; there are only {', '.join(tools)}")
        _require_fit(arguments, tools[name])
    return ToolCall(call_id, name, arguments)


def _require_fit(arguments: Mapping[str, JSON], tool: ToolSpec) -> None:
    from jsonschema import Draft202012Validator  # takes a tenth of a second, and few calls need it

    error = next(Draft202012Validator(tool.parameters).iter_errors(arguments), None)
    if error is not None:
        message = f"{error.json_path}: {error.message}"
        raise malformed(f"the arguments of the tool {tool.name!r} break its schema: {message}")


def _parsed(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def _finite(text: str) -> float:
    """Parses a number. Raises ValueError for 1e999, an infinity that no record could keep."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is out of range")
    return number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
