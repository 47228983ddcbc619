"""What makes two requests the same question: a canonical form, its hash, and the first difference.

The form holds the model string, the messages, the tools and the sampling. It leaves out what only
says how the question travels (base URL, timeouts, retries), who asked (the role), what the server
is to tell beside the answer (`logprobs`), how strictly the answer is read (`lenient_tools`), and
the provider's own blocks, which the reply before has brought.
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
_SHOWN: Final = 160


def parameters(request: ChatRequest) -> dict[str, JSON]:
    """Everything of a request but its messages and tools, as far as it was stated."""
    stated = {name: getattr(request, name) for name in PARAMETERS}
    return {name: value for name, value in stated.items() if value is not None}


def tools_json(tools: Sequence[ToolSpec]) -> list[JSON]:
    """Tools as records keep them."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in tools
    ]


def digest(asked: Mapping[str, JSON], messages: Sequence[Message], tools: Sequence[JSON]) -> str:
    """The hash that equal questions share."""
    form = {**asked, "messages": [_bare(message) for message in messages], "tools": list(tools)}
    return hashlib.sha256(canonical(form).encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: JSON) -> str:
    """JSON text that equal values share."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _bare(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "provider_blocks"}


@dataclass(frozen=True, slots=True)
class Question:
    """A request in its canonical form, as it is recorded and compared."""

    parameters: Mapping[str, JSON]
    messages: Sequence[Message]
    tools: Sequence[JSON]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        hashed = digest(self.parameters, self.messages, self.tools)
        object.__setattr__(self, "digest", hashed)  # the dataclass is frozen


def first_difference(recorded: Question, asked: Question) -> str:
    """Where two questions part, in one or two lines for people."""
    for name in PARAMETERS:
        was, now = recorded.parameters.get(name), asked.parameters.get(name)
        if was != now:
            return f"{name} was {was!r} and is now {now!r}"
    for index, (before, after) in enumerate(zip_longest(recorded.messages, asked.messages)):
        if before is None or after is None:
            return _counts(recorded, asked)
        if _bare(before) != _bare(after):
            return _in_message(index, before, after)
    for before, after in zip_longest(recorded.tools, asked.tools):
        if before != after:
            return f"the tools differ: {_parting(canonical(before), canonical(after))}"
    return "nothing that is compared differs"


def _counts(recorded: Question, asked: Question) -> str:
    return f"{len(recorded.messages)} messages were recorded, {len(asked.messages)} are asked with"


def _in_message(index: int, before: Message, after: Message) -> str:
    was, now = before.get("role"), after.get("role")
    if was != now:
        return f"message {index} was of role {was} and is now of role {now}"
    place = f"message {index} ({now})"
    if before.get("content") == after.get("content"):
        return f"{place}: {_parting(canonical(_bare(before)), canonical(_bare(after)))}"
    pairs = zip_longest(_lines(before), _lines(after))
    number, (old, new) = next(
        (at, pair) for at, pair in enumerate(pairs, start=1) if pair[0] != pair[1]
    )
    return f"{place}, line {number}: {_parting(old, new)}"


def _lines(message: Message) -> list[str]:
    content = message.get("content")
    return (content if isinstance(content, str) else canonical(content)).split("\n")


def _parting(before: str | None, after: str | None) -> str:
    """The surroundings of the first character in which two texts differ."""
    if before is None or after is None:
        kept, word = (after, "new") if before is None else (before, "gone")
        return f"{(kept or '')[:_SHOWN]!r} is {word}"
    pairs = zip_longest(before, after)
    same = next((at for at, (old, new) in enumerate(pairs) if old != new), 0)
    start = max(0, same - _SHOWN // 4)
    was, now = before[start : start + _SHOWN], after[start : start + _SHOWN]
    return f"column {same + 1}\n  recorded: {was!r}\n  asked:    {now!r}"
