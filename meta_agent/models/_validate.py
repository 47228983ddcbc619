"""The one gate from what a server said to a `ChatReply`: whole, or a `ProviderError`.

A reply counts with a known stop reason, usage, and tool calls whose ids are unique, whose names are
known, and whose arguments are complete JSON objects that fit the tool's schema. What SDKs call
success (a stream that ended early, a page of HTML) does not get through here.

A reply cut by `max_tokens` is whole as far as it goes, but carries no tool calls: a list of calls
that was cut can't be told from one that was not. The same holds for a refusal.

The schema check knows the keywords that tools use (`type`, `enum`, `const`, `properties`,
`required`, `additionalProperties`, `items`, `anyOf`, `oneOf`, `allOf`, bounds); others are ignored,
`$ref` among them, so nothing is ever fetched and no foreign pattern is run.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from meta_agent.errors import ProviderError
from meta_agent.models._failures import Secrets, malformed, scrubbed
from meta_agent.models.chat import (
    ChatReply,
    ChatRequest,
    ChatStop,
    ReplyTokens,
    ToolCall,
    ToolSpec,
    Usage,
)
from meta_agent.protocols import JSON


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
        content=said.text,
        stop="tool_calls" if calls else said.stop,
        usage=said.usage,
        model=said.model or request.model,
        tool_calls=calls,
        reasoning=said.reasoning,
        provider_blocks=None if cut else said.provider_blocks,
        tokens=said.tokens,
        seconds=seconds,
        request_id=said.request_id,
    )


class Collector(Protocol):
    """Puts one stream's events together."""

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
    try:
        with contextlib.closing(events):  # a reply that is refused half-way is not heard out
            for event in events:
                collector.add(event)
        return accept(collector.finish(), request, seconds=time.monotonic() - started)
    except ProviderError as error:
        failure = scrubbed(error, secrets)
    raise failure


def usage_of(
    *, input_tokens: Any, output_tokens: Any, cached: Any = 0, written: Any = 0, reasoning: Any = 0
) -> Usage:
    """Usage, if every figure is a whole number that is not negative."""
    figures = [input_tokens, output_tokens, cached or 0, written or 0, reasoning or 0]
    for figure in figures:
        if isinstance(figure, bool) or not isinstance(figure, int) or figure < 0:
            raise malformed(f"the reply's token usage holds {figure!r}")
    return Usage(*figures)


def arguments_of(text: str, name: str) -> Mapping[str, JSON]:
    """Arguments of a call, which must be one whole JSON object. None at all means an empty one."""
    try:
        value = json.loads(text or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise malformed(f"the arguments of {name!r} are not JSON: {text[:120]!r}") from None
    if not isinstance(value, dict):
        raise malformed(f"the arguments of {name!r} are not a JSON object: {text[:120]!r}")
    return value


def _checked(calls: Sequence[SaidCall], request: ChatRequest) -> tuple[ToolCall, ...]:
    tools = {tool.name: tool for tool in request.tools}
    ids = [call.id for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):
        raise malformed(f"the ids of the tool calls are not unique: {ids}")
    return tuple(_checked_call(call, tools, lenient=request.lenient_tools) for call in calls)


def _checked_call(call: SaidCall, tools: Mapping[str, ToolSpec], *, lenient: bool) -> ToolCall:
    arguments = arguments_of(call.arguments, call.name)
    if not lenient:
        if call.name not in tools:
            raise malformed(f"no tool is called {call.name!r}; there are {', '.join(tools)}")
        wrong = next(problems(arguments, tools[call.name].parameters), None)
        if wrong is not None:
            raise malformed(f"the arguments of {call.name!r} break its schema: {wrong}")
    return ToolCall(call.id, call.name, arguments)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# --- JSON schema, the part that tools use -------------------------------------------------------

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: _is_whole(value),
}


def problems(value: JSON, schema: Any, where: str = "") -> Iterator[str]:
    """What is wrong with a value, in words, each with its place. Nothing: it fits."""
    if schema is False:
        yield f"{where or 'it'} is not allowed"
    if not isinstance(schema, Mapping):
        return
    place = where or "it"
    types = schema.get("type")
    if types is not None and not any(_is_a(value, one) for one in _as_list(types)):
        yield f"{place} is {_type_of(value)}, not {' or '.join(map(str, _as_list(types)))}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {value!r}, not one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place} is {value!r}, not {schema['const']!r}"
    yield from _bounds(value, schema, place)
    yield from _combined(value, schema, where)
    if isinstance(value, dict):
        yield from _object_problems(value, schema, where)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items"), f"{where}[{index}]")


def _object_problems(
    value: Mapping[str, JSON], schema: Mapping[str, Any], where: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_join(where, name)} is missing"
    for name, item in value.items():
        rule = known[name] if name in known else schema.get("additionalProperties")
        yield from problems(item, rule, _join(where, name))


def _bounds(value: JSON, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    if _TYPES["number"](value):
        yield from _limits(value, schema, ("minimum", "maximum"), place)
    elif isinstance(value, str):
        yield from _limits(len(value), schema, ("minLength", "maxLength"), f"{place}'s length")
    elif isinstance(value, list):
        yield from _limits(len(value), schema, ("minItems", "maxItems"), f"{place}'s length")


def _limits(
    value: float, schema: Mapping[str, Any], names: tuple[str, str], place: str
) -> Iterator[str]:
    low, high = schema.get(names[0]), schema.get(names[1])
    if low is not None and value < low:
        yield f"{place} is {value}, below {low}"
    if high is not None and value > high:
        yield f"{place} is {value}, above {high}"


def _combined(value: JSON, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from problems(value, part, where)
    for keyword in ("anyOf", "oneOf"):
        parts = schema.get(keyword)
        fits = [part for part in parts or () if not any(problems(value, part, where))]
        if parts and (not fits or (keyword == "oneOf" and len(fits) > 1)):
            yield f"{where or 'it'} fits {len(fits)} of the {len(parts)} forms of {keyword}"


def _is_a(value: JSON, name: Any) -> bool:
    check = _TYPES.get(name) if isinstance(name, str) else None
    return check is None or check(value)


def _is_whole(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


def _type_of(value: JSON) -> str:
    return next(
        (name for name in ("boolean", "integer", *_TYPES) if _TYPES[name](value)), "unknown"
    )


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
