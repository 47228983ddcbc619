"""The limits of one request: its deadline, its size in bytes, and the headers that leave.

An SDK's timeout starts again at every byte. So the deadline of the whole reply is checked here,
whenever bytes arrive. A server that sends nothing meets the timeout of the HTTP client.

Promises of a guarded client: it asks for no compressed reply and unpacks none. A reply and each of
its events have a limit, which counts bytes as they arrive. A long error page is cut. A response
that is not read to its end is closed at once.

Does not cover: a server that sends the head of its response byte by byte.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._failures import malformed

REPLY_BYTES: Final = 64 << 20
"""The limit of a reply on the wire, where a token with its log-probability is half a kilobyte."""
EVENT_BYTES: Final = 2 << 20
EVENT_LINES: Final = 1000  # an SDK's time to join the lines of an event grows with their square
ERROR_BYTES: Final = 64 << 10
_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END_BYTES: Final = 3  # of a blank line that the next piece may complete

_PROTOCOL_HEADERS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"}
    | {"user-agent", "transfer-encoding", "anthropic-version", "anthropic-beta"}
)

# Every request has a connection of its own. An idle connection that the server has closed fails a
# request in a way that looks like a paid one.
NO_KEEP_ALIVE: Final[Mapping[str, str]] = {"connection": "close"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of one request in seconds: to connect, between bytes, and for the whole reply."""

    connect_sec: float = 15.0
    silent_sec: float = 300.0
    total_sec: float = 1200.0

    @property
    def read_sec(self) -> float:
        """Returns how many seconds the HTTP client waits for the next byte."""
        return min(self.silent_sec, self.total_sec)


class _Request:
    """One request: when its reply is due, and the responses to close at its end."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._total_sec = timeouts.total_sec
        self._due = time.monotonic() + timeouts.total_sec
        self.responses: list[Any] = []

    def require_time(self) -> None:
        """Raises ProviderError if the deadline of the reply has passed."""
        if time.monotonic() > self._due:
            text = f"the model's reply was not complete after {self._total_sec:g} s"
            raise ProviderError(text, kind="timeout")


_CURRENT: ContextVar[_Request | None] = ContextVar("request", default=None)


@contextlib.contextmanager
def limited_request(timeouts: Timeouts) -> Iterator[None]:
    """Applies a time limit to the HTTP request in the `with` block, then closes its responses."""
    request = _Request(timeouts)
    token = _CURRENT.set(request)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        for response in request.responses:
            with contextlib.suppress(Exception):
                response.close()


def is_loopback(url: str) -> bool:
    """Returns True if the URL's host is `localhost` or a loopback address."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def only(headers: Mapping[str, str]) -> Callable[[Any], None]:
    """Returns an HTTP request hook that drops all headers but `headers` and the protocol's own."""

    def hook(request: Any) -> None:
        for name in list(request.headers):
            if name.lower() not in _PROTOCOL_HEADERS:
                del request.headers[name]
        for name, value in headers.items():
            request.headers[name] = value

    return hook


def events_only(response: Any) -> None:
    """Raises ProviderError if a successful HTTP response is no stream of server-sent events."""
    kind = response.headers.get("content-type", "no content type")
    if response.status_code < 300 and "text/event-stream" not in kind:
        raise malformed(
            f"the server answered with {kind}, not with a stream of events (text/event-stream). "
            "Its base URL has to be that of an API which can stream"
        )


def guard(client: Any) -> Any:
    """Limits the time and the bytes of an httpx client's replies, and returns the client."""
    hooks = client.event_hooks
    client.event_hooks = {
        "request": [*hooks["request"], _ask_for_plain_bytes],
        "response": [_limit, *hooks["response"]],
    }
    return client


def _ask_for_plain_bytes(request: Any) -> None:
    request.headers["accept-encoding"] = "identity"


def _limit(response: Any) -> None:
    request = _CURRENT.get() or _Request(Timeouts())
    request.responses.append(response)
    failed = response.status_code >= 300
    encoding = response.headers.pop("content-encoding", "identity")
    if encoding != "identity" and not failed:
        raise malformed(f"the server packed its reply as {encoding:.40}, which was not requested")
    pieces = _in_time(response.stream, request)
    response.stream = _replacing(
        response.stream, _first_bytes(pieces) if failed else _within_limits(pieces)
    )


def _replacing(stream: Any, pieces: Iterator[bytes]) -> Any:
    """Returns a stream of other pieces. The client accepts only a child of its own class."""
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "SyncByteStream")
    members = {"__iter__": lambda self: pieces, "close": lambda self: stream.close()}
    return type("Limited", (base,), members)()


def _in_time(stream: Any, request: _Request) -> Iterator[bytes]:
    for piece in stream:
        request.require_time()
        yield piece


def _first_bytes(pieces: Iterator[bytes]) -> Iterator[bytes]:
    room = ERROR_BYTES
    for piece in pieces:
        yield piece[:room]
        room -= len(piece)
        if room <= 0:
            return


def _within_limits(pieces: Iterator[bytes]) -> Iterator[bytes]:
    room, event_bytes, lines, tail = REPLY_BYTES, 0, 0, b""
    for piece in pieces:
        room -= len(piece)
        text = tail + piece  # a piece is small, so it does not matter where an event ends inside it
        ends = [match.end() for match in _BLANK_LINE.finditer(text)]
        event_bytes = len(text) - ends[-1] if ends else event_bytes + len(piece)
        lines = text.count(b"\n", ends[-1]) if ends else lines + piece.count(b"\n")
        tail = text[-_LINE_END_BYTES:]
        if room < 0:
            raise malformed(f"the model's reply exceeds the limit of {REPLY_BYTES >> 20} MB")
        if event_bytes > EVENT_BYTES or lines > EVENT_LINES:
            limit = f"{EVENT_BYTES >> 20} MB, {EVENT_LINES} lines"
            raise malformed(f"an event of the model's reply exceeds the limit ({limit})")
        yield piece
