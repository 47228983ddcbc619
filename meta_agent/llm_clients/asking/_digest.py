"""What makes two requests the same question: a canonical form, its hash, and the first difference.

The form holds the model string, the messages, the tools and the sampling. It omits how the question
travels (base URL, timeouts, retries), who asks (the role), what the server reports beside the
answer (`logprobs`), and how strictly the answer is read (`lenient_tools`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from meta_agent.core.chat import ChatRequest, ToolSpec
from meta_agent.core.protocols import JSON, Message

PARAMETERS: Final = ("model", "max_tokens", "tool_choice", "temperature", "top_p", "seed", "effort")
_SHOWN_CHARS: Final = 160


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A request to a model in the canonical form in which requests are recorded and compared."""

    parameters: Mapping[str, JSON]
    messages: Sequence[Message]
    tools: Sequence[JSON]
    digest: str = field(init=False)
    """The hash that equal questions share."""

    def __post_init__(self) -> None:
        messages = [_bare(message) for message in self.messages]
        form = canonical({**self.parameters, "messages": messages, "tools": list(self.tools)})
        digest = hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest()
        object.__setattr__(self, "digest", digest)  # the dataclass is frozen


def parameters(request: ChatRequest) -> dict[str, JSON]:
    """Returns the request's settings that are not None, such as its model and seed, by name."""
    values = {name: getattr(request, name) for name in PARAMETERS}
    return {name: value for name, value in values.items() if value is not None}


def tools_json(tools: Sequence[ToolSpec]) -> list[JSON]:
    """Returns each tool's name, description and JSON schema as a JSON object."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in tools
    ]


def canonical(value: JSON) -> str:
    """Returns compact JSON text with sorted keys, which is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _bare(message: Message) -> Message:
    """Returns the message without the signed blocks that earlier versions recorded in replies."""
    return {name: value for name, value in message.items() if name != "provider_blocks"}


def first_difference(recorded: ModelQuestion, question: ModelQuestion) -> str:
    """Returns three lines of text: where two requests first differ, and what each says there."""
    parts = zip_longest(_parts(recorded), _parts(question), fillvalue=("the end", ""))
    (before, was), (place, now) = next(pair for pair in parts if pair[0] != pair[1])
    columns = enumerate(zip_longest(was, now))
    column = next((column for column, (old, new) in columns if old != new), 0)
    start = max(0, column - _SHOWN_CHARS // 4)
    was, now = was[start : start + _SHOWN_CHARS], now[start : start + _SHOWN_CHARS]
    place = place if before == place else f"{place} where {before} was"
    return f"{place}\n  recorded: {was!r}\n  asked:    {now!r}"


def _parts(question: ModelQuestion) -> Iterator[tuple[str, str]]:
    """Yields each parameter, each line of each message and each tool, with its place."""
    for name, value in sorted(question.parameters.items()):
        yield name, canonical(value)
    for index, message in enumerate(map(_bare, question.messages)):
        place = f"message {index} ({message.get('role')})"
        for name, value in sorted(message.items()):
            if not isinstance(value, str):
                yield f"{place}, {name} as JSON", canonical(value)
                continue
            for number, line in enumerate(value.split("\n"), start=1):
                yield f"{place}, {name}, line {number}", line
    for tool in question.tools:
        yield "a tool", canonical(tool)
