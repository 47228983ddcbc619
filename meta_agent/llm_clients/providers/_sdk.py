"""What the openai and anthropic SDKs share: one kind of client, one way to ask and to fail.

Promises: one request per `chat`, streamed; an SDK's exception is named and never chained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._failures import (
    is_transport,
    malformed,
    of_ours,
    of_transport,
    unknown,
)
from meta_agent.llm_clients.providers._streaming import Line, Timeouts
from meta_agent.llm_clients.providers._validate import Collector, heard
from meta_agent.llm_clients.providers._wire import Opened, guard, is_loopback, only


def http_client(sdk: Any, url: str, timeouts: Timeouts, own: Mapping[str, str] | None) -> Any:
    """A guarded client of an SDK. At an address of the user's own, `own` headers alone go out."""
    return guard(
        sdk.DefaultHttpxClient(
            timeout=sdk.Timeout(timeouts.read_sec, connect=timeouts.connect_sec),
            follow_redirects=False,
            trust_env=not is_loopback(url),  # a proxy for the world is none for this machine
            event_hooks={"request": [] if own is None else [only(own)]},
        )
    )


class SdkProvider(ABC):
    """One account at one server. Threads may call `chat` at the same time."""

    def __init__(self, client: Any, path: str, stream: Any, key: str, timeouts: Timeouts) -> None:
        self._client, self._path, self._stream = client, path, stream
        self._secrets, self._timeouts = (key,), timeouts

    def close(self) -> None:
        self._client.close()

    @abstractmethod
    def _of_sdk(self, error: BaseException) -> ProviderError | None:
        """What the SDK says of a status, or of an error in the stream; None: it says neither."""

    def _hear(
        self, request: ChatRequest, body: Mapping[str, JSON], collector: Collector
    ) -> ChatReply:
        line = Line(lambda: self._open(body), self._timeouts, self._typed)
        return heard(line.listen(), collector, request, secrets=self._secrets)

    def _open(self, body: Mapping[str, JSON]) -> Opened:
        sent: dict[str, Any] = {"body": dict(body), "cast_to": object}
        return Opened(self._client.post(self._path, **sent, stream=True, stream_cls=self._stream))

    def _typed(self, error: BaseException, began: bool) -> ProviderError:
        if known := of_ours(error) or self._of_sdk(error):
            return known
        if is_transport(error):
            return of_transport(error, began=began, secrets=self._secrets)
        # A line of the stream is not JSON, not UTF-8, or nested without an end.
        if isinstance(error, ValueError | RecursionError):
            return malformed(f"the stream can't be read: {error}", secrets=self._secrets)
        return unknown(error, secrets=self._secrets)
