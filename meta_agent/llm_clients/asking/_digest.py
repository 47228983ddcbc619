"""What makes two requests the same question: a canonical form, its hash, and the first difference.

The form holds the model string, the messages, the tools and the sampling. It omits how the question
travels (base URL, timeouts, retries), who asks (the role), what the server reports beside the
answer (`logprobs`), how strictly the answer is read (`lenient_tools`), and the provider's own
blocks, which came with an earlier reply.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from meta_agent.core.chat import ChatRequest, ToolSpec
from meta_agent.core.protocols import JSON, Message

PARAMETERS: Final = (
    "model",
    "max_tokens",
    "tool_choice",
    "temperature",
    "top_p",
    "seed",
    "thinking_tokens",
)
_SHOWN_CHARS: Final = 160


@dataclass(frozen=True, slots=True)
class Question:
    """A request in its canonical form, as it is recorded and compared."""

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
    """Returns every parameter that the request states, without its messages and tools."""
    values = {name: getattr(request, name) for name in PARAMETERS}
    return {name: value for name, value in values.items() if value is not None}


def tools_json(tools: Sequence[ToolSpec]) -> list[JSON]:
    """Returns tools as a record holds them."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in tools
    ]


def canonical(value: JSON) -> str:
    """Returns JSON text that equal values share."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _bare(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "provider_blocks"}


def first_difference(recorded: Question, question: Question) -> str:
    """Says in one or two lines where two questions part."""
    for name in PARAMETERS:
        was, now = recorded.parameters.get(name), question.parameters.get(name)
        if was != now:
            return f"{name} was {was!r} and is now {now!r}"
    pairs = zip(recorded.messages, question.messages, strict=False)
    for index, (before, after) in enumerate(pairs):
        if _bare(before) != _bare(after):
            return _difference_of_messages(index, before, after)
    counts = len(recorded.messages), len(question.messages)
    if counts[0] != counts[1]:
        return f"{counts[0]} messages were recorded, {counts[1]} are asked with"
    tools = canonical(list(recorded.tools)), canonical(list(question.tools))
    return f"the tools differ: {_difference_of_texts(*tools)}"


def _difference_of_messages(index: int, before: Message, after: Message) -> str:
    was, now = before.get("role"), after.get("role")
    if was != now:
        return f"message {index} was of role {was} and is now of role {now}"
    place = f"message {index} ({now})"
    if before.get("content") == after.get("content"):
        texts = canonical(_bare(before)), canonical(_bare(after))
        return f"{place}: {_difference_of_texts(*texts)}"
    pairs = zip_longest(_lines(before), _lines(after), fillvalue="")
    number, texts = next(
        (number, pair) for number, pair in enumerate(pairs, start=1) if pair[0] != pair[1]
    )
    return f"{place}, line {number}: {_difference_of_texts(*texts)}"


def _lines(message: Message) -> list[str]:
    content = message.get("content")
    return (content if isinstance(content, str) else canonical(content)).split("\n")


def _difference_of_texts(before: str, after: str) -> str:
    """Shows the surroundings of the first character in which two texts differ."""
    pairs = enumerate(zip_longest(before, after))
    column = next((index for index, (old, new) in pairs if old != new), 0)
    start = max(0, column - _SHOWN_CHARS // 4)
    was, now = before[start : start + _SHOWN_CHARS], after[start : start + _SHOWN_CHARS]
    return f"column {column + 1}\n  recorded: {was!r}\n  asked:    {now!r}"
