"""The parts of a request that the policy's server refuses, found out before the first attempt.

Servers differ: reasoning models take no temperature, a server without a tool parser takes no tools,
and few give logprobs. So one short question with every part that a rollout may send goes out first.
A refusal costs nothing, and the question is repeated without the part that the refusal names.

Promises: every attempt of a run, in both arms of a comparison, sends the same parts. A later
refusal is about that attempt's own request, and takes nothing from any other attempt.

Does not cover: values that a server refuses, though it takes the part.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from meta_agent.core.chat import ChatRequest, Effort, ModelClient, ToolSpec
from meta_agent.core.errors import ProviderError

CONVERSATION: Final = "preflight/policy"
_TOOL: Final = ToolSpec("note", "Stores a note.", {"type": "object", "properties": {}})


class _Part(NamedTuple):
    words: tuple[str, ...]
    """Words in a refusal that name the part."""
    without: Mapping[str, Any]
    """The fields of a request that hold the part, as they are without it."""


# The first part that a refusal names is omitted from then on. A server that takes either of
# temperature and top_p names both, and keeps the temperature.
_PARTS: Final[Mapping[str, _Part]] = {
    "logprobs": _Part(("logprob", "token_ids"), {"logprobs": False}),
    "top_p": _Part(("top_p",), {"top_p": None}),
    "temperature": _Part(("temperature",), {"temperature": None}),
    "seed": _Part(("seed",), {"seed": None}),
    "tools": _Part(("tool", "function"), {"tools": ()}),
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

    def without(self, refusal: str) -> Dialect | None:
        """Returns a dialect that also omits the part named in `refusal`; None if it names none."""
        text = refusal.lower()
        for name, part in _PARTS.items():
            if name not in self.refused and any(word in text for word in part.words):
                return Dialect(self.refused | {name})
        return None


def dialect_of(
    client: ModelClient,
    model: str,
    *,
    logprobs: bool = False,
    effort: Effort | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Dialect:
    """Asks the policy's server one question and returns which parts of requests it refuses.

    `tell` gets a line for people if it refuses some. A script is not asked. Raises ProviderError if
    no reply comes, so that a wrong key or a server that is down ends the run before it begins.
    """
    dialect = Dialect(frozenset() if logprobs else frozenset({"logprobs"}))
    if model.startswith("scripted:"):
        return dialect
    question = ChatRequest(
        role="policy",
        model=model,
        messages=[{"role": "user", "content": "Reply with one word: ready."}],
        max_tokens=512,  # a model that thinks needs room to reply at all
        tools=[_TOOL],
        temperature=0.7,
        top_p=0.9,
        seed=(1 << 31) - 1,
        logprobs=logprobs,
        effort=effort,
        lenient_tools=True,
    )
    for turn in itertools.count():
        try:
            client.chat(dialect.adapt(question), conversation=CONVERSATION, turn=turn)
        except ProviderError as error:
            narrower = dialect.without(str(error)) if error.kind == "refused" else None
            if narrower is None:
                raise
            dialect = narrower
        else:
            break
    omitted = sorted(dialect.refused - {"logprobs"})
    if omitted:
        tell(f"the policy's server refuses {' and '.join(omitted)}: every attempt goes without")
    return dialect
