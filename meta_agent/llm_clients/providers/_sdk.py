"""What the openai and anthropic providers share: how a client is made, asks and fails.

Promises: one request per `chat`, streamed, with the SDK's retries off and redirects not followed (a
redirect would carry the key along). At a base URL of the user's own only the key meant for it goes
out: other headers that the SDK reads from the environment are taken off again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._connection import (
    NO_KEEP_ALIVE,
    Timeouts,
    events_only,
    guard,
    is_loopback,
    only,
)
from meta_agent.llm_clients.providers._failures import is_transport, of_event, of_status
from meta_agent.llm_clients.providers._reply import Collector, read_reply


class SdkProvider(ABC):
    """The base of providers that use a vendor's SDK: one server, one key. Threads may share it."""

    sdk: Any
    """The module of the SDK."""
    vendor_url: ClassVar[str]
    path: ClassVar[str]
    key_header: ClassVar[str]
    key_form: ClassVar[str] = "{}"
    """The value of `key_header`, with the key in place of the braces."""
    collector: ClassVar[type[Collector]]

    def __init__(self, *, base_url: str | None, api_key: str, timeouts: Timeouts) -> None:
        url = base_url or self.vendor_url
        self.asks_vendor = urlsplit(url).hostname == urlsplit(self.vendor_url).hostname
        self._secrets, self._timeouts = (api_key,), timeouts
        headers = {self.key_header: self.key_form.format(api_key)}
        self._client = self.sdk.Client(
            api_key=api_key,
            base_url=url,
            max_retries=0,
            default_headers=NO_KEEP_ALIVE,
            http_client=self._http_client(url, None if self.asks_vendor else headers),
        )

    @abstractmethod
    def body(self, request: ChatRequest) -> dict[str, JSON]:
        """Returns the JSON body of the HTTP request for a streamed reply."""

    def chat(self, request: ChatRequest) -> ChatReply:
        body, stream = self.body(request), self.sdk.Stream[object]  # events are then plain values
        return read_reply(
            lambda: self._client.post(
                self.path, body=body, cast_to=object, stream=True, stream_cls=stream
            ),
            self.collector(),
            request,
            timeouts=self._timeouts,
            secrets=self._secrets,
            sdk_failure=self._failure,
        )

    def close(self) -> None:
        self._client.close()

    def _http_client(self, url: str, only_headers: Mapping[str, str] | None) -> Any:
        """Returns an HTTP client for the SDK, with limits on time and on the size of replies.

        It sends `only_headers` and those of the protocol. None lets all headers of the SDK pass.
        """
        timeouts = self._timeouts
        return guard(
            self.sdk.DefaultHttpxClient(
                timeout=self.sdk.Timeout(timeouts.read_sec, connect=timeouts.connect_sec),
                follow_redirects=False,
                trust_env=not is_loopback(url),  # a proxy for the world is none for this machine
                event_hooks={
                    "request": [] if only_headers is None else [only(only_headers)],
                    "response": [events_only],
                },
            )
        )

    def _failure(self, error: Exception, _began: bool) -> ProviderError | None:
        """Returns the ProviderError for an HTTP status or error event; None for other errors."""
        body = getattr(error, "body", None)
        if isinstance(error, self.sdk.APIStatusError):
            answer = error.response
            if answer.status_code >= 300:
                text = answer.text if answer.is_closed else str(error)
                return of_status(answer.status_code, text, answer.headers)
            # Anthropic's SDK reports an error event as a status error with the whole event.
            body = body.get("error") if isinstance(body, Mapping) else None
        elif not isinstance(error, self.sdk.APIError) or is_transport(error):
            return None
        return of_event(body if isinstance(body, Mapping) else {"message": str(error)})
