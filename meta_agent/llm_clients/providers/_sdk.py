"""What the openai and anthropic providers share: how a client is made, asks and fails.

Promises: one request per `chat`, streamed, with the SDK's retries off and redirects not followed (a
redirect would carry the key along). At a base URL of the user's own only the key meant for it goes
out: other headers that the SDK reads from the environment are taken off again.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._connection import NO_KEEP_ALIVE, RequestTimeouts, http_client
from meta_agent.llm_clients.providers._events import events_of
from meta_agent.llm_clients.providers._failures import of_status
from meta_agent.llm_clients.providers._reply import Collector, read_reply
from meta_agent.llm_clients.scrubber import Scrubber


class SdkProvider(ABC):
    """The base of providers that use a vendor's SDK: one server, one key. Threads may share it."""

    sdk: Any
    """The module of the SDK."""
    vendor_url: ClassVar[str]
    key_header: ClassVar[str]
    key_form: ClassVar[str] = "{}"
    """The value of `key_header`, with the key in place of the braces."""
    collector: ClassVar[type[Collector]]

    def __init__(
        self, *, base_url: str | None, api_key: str, timeouts: RequestTimeouts, scrubber: Scrubber
    ) -> None:
        url = base_url or self.vendor_url
        self.asks_vendor = urlsplit(url).hostname == urlsplit(self.vendor_url).hostname
        self._scrubber, self._timeouts = scrubber, timeouts
        headers = None if self.asks_vendor else {self.key_header: self.key_form.format(api_key)}
        (http_class,) = self.sdk.DefaultHttpxClient.__bases__  # of httpx, or of a fork of it
        httpx = sys.modules[http_class.__module__.partition(".")[0]]
        self._client = self.sdk.Client(
            api_key=api_key,
            base_url=url,
            max_retries=0,
            default_headers=NO_KEEP_ALIVE,
            http_client=http_client(httpx, url, timeouts, headers),
        )

    @abstractmethod
    def body(self, request: ChatRequest) -> dict[str, JSON]:
        """Returns the JSON body of the HTTP request for a streamed reply."""

    @abstractmethod
    def open(self, body: Mapping[str, JSON]) -> AbstractContextManager[Any]:
        """Returns the SDK's context in which a request is sent and its response read as bytes."""

    def chat(self, request: ChatRequest) -> ChatReply:
        return read_reply(
            lambda: self._events(self.body(request)),
            self.collector(),
            request,
            timeouts=self._timeouts,
            scrubber=self._scrubber,
            sdk_failure=self._failure,
        )

    def _events(self, body: Mapping[str, JSON]) -> Iterator[Any]:
        with self.open(body) as response:
            kind = response.headers.get("content-type", "no content type")
            yield from events_of(response.iter_bytes(), kind)

    def close(self) -> None:
        self._client.close()

    def _failure(self, error: Exception, _began: bool) -> ProviderError | None:
        """Returns the ProviderError for an HTTP status; None for other errors."""
        if not isinstance(error, self.sdk.APIStatusError):
            return None
        answer = error.response
        text = answer.text if answer.is_closed else str(error)
        return of_status(answer.status_code, text, answer.headers)
