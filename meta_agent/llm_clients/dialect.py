"""What a model server turned out not to take, learned from the request that it refused.

Servers differ: reasoning models take no temperature, a server without a tool parser takes no
tools, few give logprobs. A refusal costs nothing, so the request is asked again without the part
that the refusal names. Both arms of a comparison meet the same server, hence speak alike.

Not covered: a refusal that names none of these; that is the scaffold's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from meta_agent.core.chat import ChatRequest

# The first that stands in the refusal is left out from then on.
_NAMED_BY: Final = (
    ("logprobs", ("logprob", "token_ids")),
    ("sampling", ("temperature", "top_p")),
    ("seed", ("seed",)),
    ("tools", ("tool",)),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Parts of a request that the server is believed to take."""

    tools: bool = True
    sampling: bool = True
    seed: bool = True
    logprobs: bool = True

    def spoken(self, request: ChatRequest) -> ChatRequest:
        """The request without what the server does not take."""
        return replace(
            request,
            tools=request.tools if self.tools else (),
            temperature=request.temperature if self.sampling else None,
            top_p=request.top_p if self.sampling else None,
            seed=request.seed if self.seed else None,
            logprobs=request.logprobs and self.logprobs,
        )

    def without(self, refusal: str, request: ChatRequest) -> Dialect | None:
        """What is left after this refusal of this request, or None where it names nothing."""
        text = refusal.lower()
        for name, words in _NAMED_BY:
            if any(word in text for word in words) and self._used(name, request):
                return replace(self, **{name: False})
        return None

    def lost(self, request: ChatRequest) -> frozenset[str]:
        """The names of a request's parts that the server does not take."""
        spoken = self.spoken(request)
        names = ("temperature", "top_p", "seed", "tools")
        return frozenset(n for n in names if getattr(request, n) != getattr(spoken, n))

    def __and__(self, other: Dialect) -> Dialect:
        """What both take."""
        return Dialect(*(getattr(self, n) and getattr(other, n) for n in self.__slots__))

    def _used(self, name: str, request: ChatRequest) -> bool:
        """Whether the refused request had the part; tools only while none were called yet."""
        if not getattr(self, name):
            return False
        if name == "tools":
            return bool(request.tools) and not any("tool_calls" in m for m in request.messages)
        if name == "sampling":
            return request.temperature is not None or request.top_p is not None
        return request.logprobs if name == "logprobs" else request.seed is not None
