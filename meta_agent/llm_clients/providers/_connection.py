"""The HTTP client of an SDK: its proxy, its certificates, and the limits of one request.

An SDK's timeout starts again at every byte. So the deadline of the whole reply is checked here,
whenever bytes arrive. A server that sends nothing meets the timeout of the HTTP client.

Promises of a guarded client: it asks for no compressed reply and unpacks none. A reply and each of
its events have a limit, which counts bytes as they arrive. A long error page is cut. A response
that is not read to its end is closed at once.

Does not cover: a server that sends the head of its response byte by byte.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from meta_agent.core.errors import PreflightError, ProviderError
from meta_agent.llm_clients.providers._events import is_json
from meta_agent.llm_clients.providers._failures import malformed

REPLY_BYTES: Final = 64 << 20
"""The limit of a reply on the wire, where a token with its log-probability is half a kilobyte."""
EVENT_BYTES: Final = 2 << 20
EVENT_LINES: Final = 1000  # an SDK's time to join the lines of an event grows with their square
ERROR_BYTES: Final = 64 << 10
_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END_BYTES: Final = 3  # of a blank line that the next piece may complete
_BLANK: Final = re.compile(r"\s")

_PROTOCOL_HEADERS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"}
    | {"user-agent", "transfer-encoding", "anthropic-version", "anthropic-beta"}
    | {"x-stainless-raw-response"}  # by it the SDKs know, later, to hand out the bytes
)

# Every request has a connection of its own. An idle connection that the server has closed fails a
# request in a way that looks like a paid one.
NO_KEEP_ALIVE: Final[Mapping[str, str]] = {"connection": "close"}


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
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

    def __init__(self, timeouts: RequestTimeouts) -> None:
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
def limited_request(timeouts: RequestTimeouts) -> Iterator[None]:
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


# --- the client -----------------------------------------------------------------------------------


def http_client(
    httpx: Any, url: str, timeouts: RequestTimeouts, headers: Mapping[str, str] | None
) -> Any:
    """Returns a guarded client of `httpx` (or a fork of it) for one server.

    It sends `headers` and those of the protocol; None lets all headers of the SDK pass. Raises
    PreflightError if a variable for proxies or certificates holds no such thing.
    """
    with usable_environment():
        proxy = proxy_for(url)
        plain = proxy is None and url.startswith("http:")  # to load certificates takes 0.1 s
        client = httpx.Client(
            timeout=httpx.Timeout(timeouts.read_sec, connect=timeouts.connect_sec),
            follow_redirects=False,
            trust_env=False,
            proxy=proxy,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else httpx.create_ssl_context(),
            event_hooks={"request": [] if headers is None else [_only(headers)]},
        )
        return guard(client)


@contextlib.contextmanager
def usable_environment() -> Iterator[None]:
    """Raises PreflightError if the block fails, and names the variables that it read."""
    try:
        yield
    except Exception as error:
        proxies = {f"{name.upper()}_PROXY": value for name, value in getproxies().items()}
        files = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
        names = [name for name, value in (proxies | files).items() if value]
        text = type(error).__name__
        if not any("@" in value for value in proxies.values()):  # it might quote a password
            text = f"{text}: {error}"
        what = " and ".join(names) or "the environment"
        raise PreflightError(
            f"no HTTP client can be made with {what} as set: {text}",
            hint="correct or unset the wrong one; socks5 needs: pip install socksio",
        ) from None


def is_loopback(url: str) -> bool:
    """Returns True if the URL's host is `localhost` or a loopback address."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def proxy_for(url: str) -> str | None:
    """Returns the proxy that the environment names for a URL; None for this machine's own."""
    proxies, parts = getproxies(), urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    excepted = proxies.get("no", "").split(",")
    if not proxy or is_loopback(url) or any(_covers(entry.strip(), url) for entry in excepted):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    address = urlsplit(proxy)
    if not address.hostname or address.port == 0 or _BLANK.search(proxy):
        raise ValueError("a proxy is written as http://HOST:PORT")
    return proxy


def _covers(entry: str, url: str) -> bool:
    """Returns True if an entry of NO_PROXY names the URL's host: a name, an address or a range."""
    host, port = urlsplit(url).hostname or "", urlsplit(url).port
    entry = entry.partition("://")[2] or entry
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    with contextlib.suppress(ValueError):
        address = urlsplit(f"//{entry}")
        name = (address.hostname or "").lstrip("*").lstrip(".")
        inside = host == name or (bool(name) and host.endswith(f".{name}"))
        return entry == "*" or (inside and address.port in (None, port))
    return False


def _only(headers: Mapping[str, str]) -> Callable[[Any], None]:
    """Returns an HTTP request hook that drops all headers but `headers` and the protocol's own."""

    def hook(request: Any) -> None:
        for name in list(request.headers):
            if name.lower() not in _PROTOCOL_HEADERS:
                del request.headers[name]
        for name, value in headers.items():
            request.headers[name] = value

    return hook


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
    request = _CURRENT.get() or _Request(RequestTimeouts())
    request.responses.append(response)
    failed = response.status_code >= 300
    encoding = response.headers.pop("content-encoding", "identity")
    if encoding != "identity" and not failed:
        raise malformed(f"the server packed its reply as {encoding:.40}, which was not requested")
    pieces = _in_time(response.stream, request)
    limited = _first_bytes(pieces) if failed else _within_limits(pieces)
    response.stream = _replacing(response, limited)


def _replacing(response: Any, pieces: Iterator[bytes]) -> Any:
    """Returns a stream of other pieces. The client accepts only a child of its own class."""
    stream, package = response.stream, type(response).__module__.partition(".")[0]
    members = {"__iter__": lambda self: pieces, "close": lambda self: stream.close()}
    return type("Limited", (sys.modules[package].SyncByteStream,), members)()


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
    room, event_bytes, lines, tail, has_events = REPLY_BYTES, 0, 0, b"", True
    for piece in pieces:
        has_events = has_events and not (room == REPLY_BYTES and is_json(piece))
        room -= len(piece)
        text = tail + piece  # a piece is small, so it does not matter where an event ends inside it
        ends = [match.end() for match in _BLANK_LINE.finditer(text)]
        event_bytes = len(text) - ends[-1] if ends else event_bytes + len(piece)
        lines = text.count(b"\n", ends[-1]) if ends else lines + piece.count(b"\n")
        tail = text[-_LINE_END_BYTES:]
        if room < 0:
            raise malformed(f"the model's reply exceeds the limit of {REPLY_BYTES >> 20} MB")
        if has_events and (event_bytes > EVENT_BYTES or lines > EVENT_LINES):
            limit = f"{EVENT_BYTES >> 20} MB, {EVENT_LINES} lines"
            raise malformed(f"an event of the model's reply exceeds the limit ({limit})")
        yield piece
