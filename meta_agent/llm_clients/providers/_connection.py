"""The connection of one request: its deadlines, its limits in bytes, and the headers that leave.

An SDK's timeout starts again at every byte, so a server that only sends keep-alive comments is
never late for it. Therefore a thread watches over each request. It shuts the connection down when
the next event, or the whole reply, is late.

Promises of a guarded client: it asks for no compressed reply and unpacks none. A reply and each of
its events have a limit, which counts bytes as they arrive. A long error page is cut.

Does not cover: connecting, which the SDKs time well.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

from meta_agent.core.errors import ProviderError
from meta_agent.core.ledger.waiting import moved
from meta_agent.llm_clients.providers._failures import malformed

REPLY_BYTES: Final = 64 << 20
"""The limit of a reply on the wire, where a token with its log-probability is half a kilobyte."""
EVENT_BYTES: Final = 2 << 20
EVENT_LINES: Final = 1000  # an SDK's time to join the lines of an event grows with their square
ERROR_BYTES: Final = 64 << 10
_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END_BYTES: Final = 3  # of a blank line that the next piece may complete
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)
"""Without it, a server that waits for a full window hears of the end a minute after the close."""

_PROTOCOL_HEADERS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"}
    | {"user-agent", "transfer-encoding", "anthropic-version", "anthropic-beta"}
)

# Every request has a connection of its own. An idle connection that the server has closed fails a
# request in a way that looks like a paid one, and we shut down only what is ours alone.
NO_KEEP_ALIVE: Final[Mapping[str, str]] = {"connection": "close"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of one attempt. The first token of a long prompt may take minutes on a slow machine,
    and a model that hides its thinking is silent for long."""

    connect_sec: float = 15.0
    first_sec: float = 300.0
    between_sec: float = 300.0
    total_sec: float = 1200.0

    @property
    def read_sec(self) -> float:
        """The SDK's own limit, which only matters where the watch cannot reach."""
        return max(self.first_sec, self.between_sec) + 5.0


class Connection:
    """The connection of the request that is made inside its `with` block, and the watch over it."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._lock = threading.Lock()  # guards `_network` and `_is_cut`
        self._network: Any = None
        self._is_cut = False
        self._response: Any = None
        self._finished = threading.Event()
        self._reply_due = time.monotonic() + timeouts.total_sec
        self._wait_for_event(timeouts.connect_sec + timeouts.first_sec)
        self._is_whole = False
        self.timeout: ProviderError | None = None
        """The error of the deadline that has passed, or None."""

    def __enter__(self) -> Self:
        self._token = _CURRENT.set(self)
        threading.Thread(target=self._watch, name="model-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        _CURRENT.reset(self._token)
        if not self._is_whole:
            self._cut()
            self._close()

    def event_arrived(self) -> None:
        """Starts the wait for the next event, and says that the call makes progress."""
        moved()
        self._wait_for_event(self._timeouts.between_sec)

    def finish(self) -> None:
        """Ends the watch after the last event. Raises the timeout if a deadline has passed."""
        self._finished.set()
        if self.timeout is not None:
            raise self.timeout
        self._is_whole = True

    def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """Notes the transport's network stream: plain TCP first, then perhaps TLS above it."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._network = facts["return_value"]
            if self._is_cut:
                self._cut()

    def answered(self, response: Any) -> None:
        """Notes the response whose body comes over this connection."""
        self._response = response

    def _wait_for_event(self, limit_sec: float) -> None:
        self._event_limit_sec = limit_sec
        self._event_due = time.monotonic() + limit_sec

    def _watch(self) -> None:
        while not self._finished.wait(min(self._event_due, self._reply_due) - time.monotonic()):
            now = time.monotonic()
            if now >= min(self._event_due, self._reply_due):
                limit = f"the server said nothing for {self._event_limit_sec:g} s"
                if now >= self._reply_due:
                    limit = f"the reply was not whole after {self._timeouts.total_sec:g} s"
                self.timeout = ProviderError(limit, kind="timeout")
                self._cut()
                return

    def _cut(self) -> None:
        """Shuts the connection down: only that wakes a thread that waits in `recv`."""
        with self._lock, contextlib.suppress(OSError):
            self._is_cut = True
            if connected := self._network and self._network.get_extra_info("socket"):
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                connected.shutdown(socket.SHUT_RDWR)

    def _close(self) -> None:
        """Closes response and socket here: the garbage collector would do it in any thread, and
        that thread may hold the lock of the client's pool."""
        with contextlib.suppress(Exception):
            if self._response is not None:
                self._response.close()
        with contextlib.suppress(OSError):
            if self._network is not None:
                self._network.close()


_CURRENT: ContextVar[Connection | None] = ContextVar("connection", default=None)


def is_loopback(url: str) -> bool:
    """Returns True if a URL means this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def only(headers: Mapping[str, str]) -> Callable[[Any], None]:
    """A request hook for a user's own server: these headers and the protocol's leave, no others.

    SDKs add organisations, projects, second keys and custom headers from the environment. Those
    are meant for the provider.
    """

    def hook(request: Any) -> None:
        for name in list(request.headers):
            if name.lower() not in _PROTOCOL_HEADERS:
                del request.headers[name]
        for name, value in headers.items():
            request.headers[name] = value

    return hook


def events_only(response: Any) -> None:
    """A response hook. Raises ProviderError if the server sends no stream of events."""
    kind = response.headers.get("content-type", "no content type")
    if response.status_code < 300 and "text/event-stream" not in kind:
        raise malformed(f"the server answered with {kind}, not with a stream of events")


def guard(client: Any) -> Any:
    """Adds our limits to an httpx client (or a fork's) and returns it."""
    hooks = client.event_hooks
    client.event_hooks = {
        "request": [*hooks["request"], _before_request],
        "response": [_after_head, *hooks["response"]],
    }
    return client


def _before_request(request: Any) -> None:
    request.headers["accept-encoding"] = "identity"
    if connection := _CURRENT.get():
        request.extensions = {**request.extensions, "trace": connection.trace}


def _after_head(response: Any) -> None:
    if connection := _CURRENT.get():
        connection.answered(response)
    failed = response.status_code >= 300
    encoding = response.headers.pop("content-encoding", "identity")
    if encoding != "identity" and not failed:
        raise malformed(f"the server packed its reply ({encoding:.40}), which nobody asked for")
    pieces = _first_bytes(response.stream) if failed else _limited(response.stream)
    response.stream = _replacing(response.stream, pieces)


def _replacing(stream: Any, pieces: Iterator[bytes]) -> Any:
    """A stream with other pieces. The client accepts only a child of its own stream class."""
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "SyncByteStream")
    members = {"__iter__": lambda self: pieces, "close": lambda self: stream.close()}
    return type("Limited", (base,), members)()


def _first_bytes(stream: Any) -> Iterator[bytes]:
    room = ERROR_BYTES
    for piece in stream:
        yield piece[:room]
        room -= len(piece)
        if room <= 0:
            return


def _limited(stream: Any) -> Iterator[bytes]:
    room, event_bytes, lines, tail = REPLY_BYTES, 0, 0, b""
    for piece in stream:
        room -= len(piece)
        text = tail + piece  # a piece is small, so it does not matter where an event ends inside it
        ends = [match.end() for match in _BLANK_LINE.finditer(text)]
        event_bytes = len(text) - ends[-1] if ends else event_bytes + len(piece)
        lines = text.count(b"\n", ends[-1]) if ends else lines + piece.count(b"\n")
        tail = text[-_LINE_END_BYTES:]
        if room < 0:
            raise malformed(f"the reply is over its limit ({REPLY_BYTES >> 20} MB)")
        if event_bytes > EVENT_BYTES or lines > EVENT_LINES:
            limit = f"{EVENT_BYTES >> 20} MB, {EVENT_LINES} lines"
            raise malformed(f"an event of the reply is over its limit ({limit})")
        yield piece
