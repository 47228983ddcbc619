"""What the SDKs' HTTP clients share: which headers leave, and streams that can be ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from meta_agent.models._failures import malformed

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
