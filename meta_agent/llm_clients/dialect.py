"""The parts of a request that a model server refuses, learned from its refusals.

Servers differ: reasoning models take no temperature, a server without a tool parser takes no tools,
and few give logprobs. A refusal costs nothing, so the request is sent again without the part that
the refusal names. Both arms of a comparison use the same server, so they send the same parts.

Does not cover: a refusal that names none of these parts; the scaffold sees that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from meta_agent.core.chat import ChatRequest


class _Part(NamedTuple):
    words: tuple[str, ...]
    """Words in a refusal that name the part."""
    without: Mapping[str, Any]
    """The fields of a request that hold the part, as they are without it."""


# The first part that a refusal names is omitted from then on.
_PARTS: Final[Mapping[str, _Part]] = {
    "logprobs": _Part(("logprob", "token_ids"), {"logprobs": False}),
    "sampling": _Part(("temperature", "top_p"), {"temperature": None, "top_p": None}),
    "seed": _Part(("seed",), {"seed": None}),
    "tools": _Part(("tool",), {"tools": ()}),
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which optional parts of a request (such as tools or seed) a model server refuses."""

    refused: frozenset[str] = frozenset()

    def adapt(self, request: ChatRequest) -> ChatRequest:
        """Returns the request without the parts that the server refuses."""
        for part in self.refused:
            request = replace(request, **_PARTS[part].without)
        return request

    def without(self, refusal: str, request: ChatRequest) -> Dialect | None:
        """Returns a dialect that also omits the part named in `refusal`; None if it names none."""
        text = refusal.lower()
        for name, part in _PARTS.items():
            if any(word in text for word in part.words) and _can_omit(name, request):
                return Dialect(self.refused | {name})
        return None

    def omitted(self, request: ChatRequest) -> frozenset[str]:
        """Returns which of temperature, top_p, seed and tools have to be left out of a request."""
        adapted = self.adapt(request)
        names = ("temperature", "top_p", "seed", "tools")
        return frozenset(n for n in names if getattr(request, n) != getattr(adapted, n))

    def __and__(self, other: Dialect) -> Dialect:
        """Returns a dialect with the parts that both servers accept."""
        return Dialect(self.refused | other.refused)


def _can_omit(part: str, request: ChatRequest) -> bool:
    """Returns True if the refused request had the part; tools only before the first call."""
    if part == "tools":
        return bool(request.tools) and not any("tool_calls" in m for m in request.messages)
    return any(getattr(request, name) != empty for name, empty in _PARTS[part].without.items())
