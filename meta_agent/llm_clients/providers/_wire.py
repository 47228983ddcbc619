"""What the SDKs' HTTP clients share: which headers leave, how much may come, and how it is ended.

Promises of a guarded client: no compressed reply is asked for or unpacked, a reply and each of its
events have a limit that counts the bytes as they arrive, and the error page of a server is cut
where it gets long. A request made under a `Cord` can be ended from another thread, from the moment
its connection stands.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import urlsplit

from meta_agent.llm_clients.providers._failures import malformed

REPLY_BYTES: Final = 64 << 20
"""On the wire: a token with its log-probability is half a kilobyte there."""
EVENT_BYTES: Final = 2 << 20
EVENT_LINES: Final = 1000  # the SDKs put an event's lines together in time that grows by the square
ERROR_BYTES: Final = 64 << 10
_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)
"""Else a server that a full window has stopped hears of the end a minute after the close."""
_LINE_END_BYTES: Final = 3  # of a blank line that the next piece may complete

_KEPT: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"}
    | {"user-agent", "transfer-encoding", "anthropic-version", "anthropic-beta"}
)

# A connection for each request. An idle one that the server has closed meanwhile fails a request in
# a way that can't be told from one that was paid for; and one that we shut down must be ours alone.
ONE_EACH: Final[Mapping[str, str]] = {"connection": "close"}


def only(ours: Mapping[str, str]) -> Callable[[Any], None]:
    """A request hook for a user's own server: our headers and the protocol's, and nothing else.

    SDKs add organisations, projects, second keys and custom headers from the environment; those are
    meant for the provider.
    """

    def hook(request: Any) -> None:
        for name in list(request.headers):
            if name.lower() not in _KEPT:
                del request.headers[name]
        for name, value in ours.items():
            request.headers[name] = value

    return hook


def is_loopback(url: str) -> bool:
    """Whether a URL means this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


class Cord:
    """The connection of one request, for whoever must end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # whoever comes second, the connection or its end, acts
        self._network: Any = None
        self._response: Any = None
        self._cut = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Requests that this thread makes meanwhile are on this cord."""
        token = _CORD.set(self)
        try:
            yield
        finally:
            _CORD.reset(token)

    def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """The transport's word on what it does: a connection, then perhaps the same inside TLS."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._network = facts["return_value"]
                if self._cut:
                    self._shut_down()

    def answered(self, response: Any) -> None:
        """The response whose body comes over this connection."""
        self._response = response

    def cut(self) -> None:
        """Ends the connection: a thread that waits in `recv` is only woken by a shutdown."""
        with self._lock:
            self._cut = True
            self._shut_down()

    def drop(self) -> None:
        """Closes the connection, once nobody reads from it any more.

        The response first. Left to the garbage collector, it asks for the lock of its client's pool
        in whatever thread the collector runs, and that thread may hold the lock.
        """
        with contextlib.suppress(Exception):
            if self._response is not None:
                self._response.close()
        with self._lock, contextlib.suppress(OSError):
            if self._network is not None:
                self._network.close()

    def _shut_down(self) -> None:
        found = self._network and self._network.get_extra_info("socket")
        if found is not None:
            with contextlib.suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                found.shutdown(socket.SHUT_RDWR)


_CORD: ContextVar[Cord | None] = ContextVar("cord", default=None)


def guard(client: Any) -> Any:
    """An httpx client (or a fork's) with our limits on what it receives."""
    hooks = client.event_hooks
    client.event_hooks = {
        "request": [*hooks["request"], _leave],
        "response": [*hooks["response"], _arrive],
    }
    return client


def _leave(request: Any) -> None:
    request.headers["accept-encoding"] = "identity"
    if cord := _CORD.get():
        request.extensions = {**request.extensions, "trace": cord.trace}


def _arrive(response: Any) -> None:
    if cord := _CORD.get():
        cord.answered(response)
    failed = response.status_code >= 300
    encoding = response.headers.pop("content-encoding", "identity")
    if encoding != "identity" and not failed:
        raise malformed(f"the server packed its reply ({encoding:.40}), which nobody asked for")
    response.stream = _limited(response.stream, failed)


def _limited(stream: Any, failed: bool) -> Any:
    """The same stream with limits. Its class must be a child of the client's own."""
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "SyncByteStream")
    pieces = _cut_off(stream) if failed else _counted(stream)
    members = {"__iter__": lambda self: pieces, "close": lambda self: stream.close()}
    return type("Limited", (base,), members)()


def _cut_off(stream: Any) -> Iterator[bytes]:
    left = ERROR_BYTES
    for piece in stream:
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return


def _counted(stream: Any) -> Iterator[bytes]:
    left, event, lines, tail = REPLY_BYTES, 0, 0, b""
    for piece in stream:
        left -= len(piece)
        seen = tail + piece  # a piece is small, so where an event ends inside it is no matter
        ends = [found.end() for found in _BLANK_LINE.finditer(seen)]
        event = len(seen) - ends[-1] if ends else event + len(piece)
        lines = seen.count(b"\n", ends[-1]) if ends else lines + piece.count(b"\n")
        tail = seen[-_LINE_END_BYTES:]
        if left < 0 or event > EVENT_BYTES or lines > EVENT_LINES:
            what = "the reply" if left < 0 else "an event of the reply"
            limit = f"{(REPLY_BYTES if left < 0 else EVENT_BYTES) >> 20} MB"
            raise malformed(f"{what} is over its limit ({limit}, {EVENT_LINES} lines)")
        yield piece


class Opened:
    """An SDK's stream, with its response in reach of whoever must end it.

    Raises ProviderError where the server sends no stream, which the SDKs take for an empty one.
    """

    def __init__(self, stream: Any) -> None:
        self.response = stream.response
        self._stream = stream
        kind = self.response.headers.get("content-type", "no content type")
        if "text/event-stream" not in kind:
            stream.close()
            raise malformed(f"the server answered with {kind}, not with a stream of events")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)

    def close(self) -> None:
        self._stream.close()
