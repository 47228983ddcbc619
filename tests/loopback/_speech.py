"""What a brain hears and says: no wire format, no sockets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Call:
    """One request, with messages and tools in OpenAI form."""

    number: int
    path: str
    headers: Mapping[str, str]  # names in lower case
    raw: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]

    @property
    def model(self) -> str:
        return str(self.raw.get("model", ""))

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.tools]

    @property
    def last(self) -> str:
        """The text of the last message."""
        return text_of(self.messages[-1].get("content")) if self.messages else ""

    @property
    def key(self) -> str:
        """The key that came with it, from whichever header."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key") or bearer


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or ())


@dataclass(frozen=True)
class Say:
    """A whole reply. Counts of tokens that are not given are made up from lengths."""

    text: str = ""
    tool_calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    call_ids: Sequence[str] = ()
    stop: str | None = None  # the protocol's own word, where the usual one will not do
    thinking: str = ""
    refusal: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    usage: bool = True  # False: the reply carries none
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    model: str | None = None  # as the server names itself; None: as it was asked
    fingerprint: str | None = None  # of what serves it

    def arguments(self) -> list[str]:
        """Each call's arguments as they go over the wire."""
        return [
            given if isinstance(given, str) else json.dumps(given) for _, given in self.tool_calls
        ]

    def ids(self, number: int) -> list[str]:
        """Ids of the tool calls: given, or unique in the server's life."""
        made = [f"call_{number}_{index}" for index in range(len(self.tool_calls))]
        return [*self.call_ids, *made[len(self.call_ids) :]]

    def tokens(self) -> tuple[list[int], list[float]]:
        """Ids and logprobs: given, or one token per byte."""
        spoken = (self.text + "".join(self.arguments())).encode()
        ids = list(self.token_ids if self.token_ids is not None else spoken)
        made = [-0.125 * (1 + index % 4) for index in range(len(ids))]
        return ids, list(self.logprobs if self.logprobs is not None else made)


FaultKind = Literal[
    "status", "reset", "silent", "abort", "cut", "stall", "early_end", "error_event"
]


@dataclass(frozen=True)
class Fault:
    """One way to fail. `say` is what a broken stream had begun to say; `pieces`, how far it got."""

    kind: FaultKind
    code: int = 200
    body: str = ""
    content_type: str = "application/json"
    headers: Mapping[str, str] | None = None
    say: Say = Say("a reply that never comes to its end")
    pieces: int = 3
    error_type: str = ""
    message: str = ""

    @staticmethod
    def status(
        code: int, message: str = "", *, error_type: str = "", retry_after: str | None = None
    ) -> Fault:
        """An error reply in the protocol's form. `retry_after` goes out as it is."""
        headers = {} if retry_after is None else {"retry-after": retry_after}
        text = message or f"loopback says {code}"
        return Fault("status", code, headers=headers, error_type=error_type, message=text)

    @staticmethod
    def context_too_long() -> Fault:
        """400 as both providers word it."""
        text = "prompt is too long: this model's maximum context length is 8192 tokens"
        return Fault("status", 400, error_type="context_length_exceeded", message=text)

    @staticmethod
    def raw(body: str, *, code: int = 200, content_type: str = "application/json") -> Fault:
        """Any body at all, whatever was asked for."""
        return Fault("status", code, body=body, content_type=content_type)

    @staticmethod
    def html(code: int = 200) -> Fault:
        """A proxy's page in the place of the reply."""
        page = "<!doctype html><html><body>sign in to continue</body></html>"
        return Fault.raw(page, code=code, content_type="text/html; charset=utf-8")

    @staticmethod
    def empty_choices() -> Fault:
        """Well-formed, and holds no choice. (Anthropic: no content, which is legal.)"""
        return Fault("status", 200, body="empty")

    @staticmethod
    def reset() -> Fault:
        """The connection is reset before a byte of the reply."""
        return Fault("reset")

    @staticmethod
    def silent() -> Fault:
        """The request is taken and nothing is ever said."""
        return Fault("silent")

    @staticmethod
    def abort(say: Say | None = None, *, pieces: int = 3) -> Fault:
        """The connection is reset after some pieces of a stream."""
        return Fault("abort", say=say or Say(_LONG), pieces=pieces)

    @staticmethod
    def cut(say: Say | None = None, *, pieces: int = 3) -> Fault:
        """The connection ends (FIN) inside a chunked stream: its end is missing."""
        return Fault("cut", say=say or Say(_LONG), pieces=pieces)

    @staticmethod
    def early_end(say: Say | None = None, *, pieces: int = 3) -> Fault:
        """HTTP says that all is well, but the stream's last events are missing."""
        return Fault("early_end", say=say or Say(_LONG), pieces=pieces)

    @staticmethod
    def stall(say: Say | None = None, *, pieces: int = 3) -> Fault:
        """The stream goes silent after some pieces and stays open."""
        return Fault("stall", say=say or Say(_LONG), pieces=pieces)

    @staticmethod
    def error_event(error_type: str = "overloaded_error", *, pieces: int = 3) -> Fault:
        """An error event in the middle of a stream that began with status 200."""
        return Fault("error_event", say=Say(_LONG), pieces=pieces, error_type=error_type)


_LONG = "a reply that is long enough to be sent in many pieces, of which the last ones never come"

Brain = Callable[[Call], "Say | Fault"]


def say_each(replies: Iterable[Say | Fault]) -> Brain:
    """A brain that gives these in turn; one request too many fails the test."""
    left = iter(list(replies))

    def brain(call: Call) -> Say | Fault:
        reply = next(left, None)
        assert reply is not None, f"request {call.number} was not expected"
        return reply

    return brain


def pieces_of(text: str, size: int = 12) -> list[str]:
    """A text as a stream would give it."""
    return [text[start : start + size] for start in range(0, len(text), size)]
