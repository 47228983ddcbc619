"""The parts of a request that a model server refuses, learned from its refusals.

Servers differ: reasoning models take no temperature, a server without a tool parser takes no tools,
and few give logprobs. A refusal costs nothing, so the request is sent again without the part that
the refusal names. Both arms of a comparison use the same server, so they send the same parts.

Does not cover: a refusal that names none of these parts; the scaffold sees that one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from meta_agent.core.chat import ChatRequest

# The first part whose word stands in the refusal is omitted from then on.
_WORDS_OF_PART: Final = (
    ("logprobs", ("logprob", "token_ids")),
    ("sampling", ("temperature", "top_p")),
    ("seed", ("seed",)),
    ("tools", ("tool",)),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which optional parts of a request (such as tools or seed) a model server accepts."""

    tools: bool = True
    sampling: bool = True
    seed: bool = True
    logprobs: bool = True

    def adapt(self, request: ChatRequest) -> ChatRequest:
        """Returns the request without the parts that the server refuses."""
        return replace(
            request,
            tools=request.tools if self.tools else (),
            temperature=request.temperature if self.sampling else None,
            top_p=request.top_p if self.sampling else None,
            seed=request.seed if self.seed else None,
            logprobs=request.logprobs and self.logprobs,
        )

    def without(self, refusal: str, request: ChatRequest) -> Dialect | None:
        """Returns the dialect less what the error text `refusal` names; None if that is nothing."""
        text = refusal.lower()
        for part, words in _WORDS_OF_PART:
            if any(word in text for word in words) and self._has(part, request):
                return replace(self, **{part: False})
        return None

    def omitted(self, request: ChatRequest) -> frozenset[str]:
        """Returns which of temperature, top_p, seed and tools have to be left out of a request."""
        adapted = self.adapt(request)
        names = ("temperature", "top_p", "seed", "tools")
        return frozenset(n for n in names if getattr(request, n) != getattr(adapted, n))

    def __and__(self, other: Dialect) -> Dialect:
        """Returns the parts that both take."""
        return Dialect(*(getattr(self, n) and getattr(other, n) for n in self.__slots__))

    def _has(self, part: str, request: ChatRequest) -> bool:
        """Returns True if the refused request had the part; tools only before the first call."""
        if not getattr(self, part):
            return False
        if part == "tools":
            return bool(request.tools) and not any("tool_calls" in m for m in request.messages)
        if part == "sampling":
            return request.temperature is not None or request.top_p is not None
        return request.logprobs if part == "logprobs" else request.seed is not None
