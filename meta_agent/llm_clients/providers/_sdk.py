"""What the openai and anthropic providers share: how a client is made and how it asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._connection import (
    Timeouts,
    events_only,
    guard,
    is_loopback,
    only,
)
from meta_agent.llm_clients.providers._reply import Collector, read_reply


def http_client(
    sdk: Any, url: str, timeouts: Timeouts, only_headers: Mapping[str, str] | None
) -> Any:
    """Returns an HTTP client for an SDK, with limits on time and on the size of replies.

    It sends `only_headers` and those of the protocol. None lets all headers of the SDK pass.
    """
    return guard(
        sdk.DefaultHttpxClient(
            timeout=sdk.Timeout(timeouts.read_sec, connect=timeouts.connect_sec),
            follow_redirects=False,
            trust_env=not is_loopback(url),  # a proxy for the world is none for this machine
            event_hooks={
                "request": [] if only_headers is None else [only(only_headers)],
                "response": [events_only],
            },
        )
    )


class SdkProvider(ABC):
    """The base of providers that use a vendor's SDK: one server, one key. Threads may share it."""

    path: ClassVar[str]
    stream: ClassVar[Any]
    """The SDK's class for a stream of events, which are then plain values."""
    collector: ClassVar[type[Collector]]

    def __init__(self, client: Any, api_key: str, timeouts: Timeouts) -> None:
        self._client, self.secrets, self._timeouts = client, (api_key,), timeouts

    @abstractmethod
    def body(self, request: ChatRequest) -> dict[str, JSON]:
        """Returns the JSON body of the HTTP request for a streamed reply."""

    @abstractmethod
    def sdk_failure(self, error: Exception, began: bool) -> ProviderError | None:
        """Returns the error if the exception reports an HTTP status or an error event, else None.

        `began` says whether events of the reply had arrived.
        """

    def chat(self, request: ChatRequest) -> ChatReply:
        body = self.body(request)
        return read_reply(
            lambda: self._client.post(
                self.path, body=body, cast_to=object, stream=True, stream_cls=self.stream
            ),
            self.collector(),
            request,
            timeouts=self._timeouts,
            secrets=self.secrets,
            sdk_failure=self.sdk_failure,
        )

    def close(self) -> None:
        self._client.close()
