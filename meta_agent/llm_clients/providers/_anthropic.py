"""The only file that uses the anthropic SDK: Anthropic itself, and servers that speak its protocol.

Promises: one request per `chat`, streamed, with the SDK's retries off and redirects not followed (a
redirect would carry the key along). At a base URL of the user's own only the key meant for it goes
out.

Does not cover: batches, files, and tools that the provider runs itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import anthropic  # noqa: TID251

from meta_agent.core.chat import ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._anthropic_form import Events, body_of
from meta_agent.llm_clients.providers._connection import NO_KEEP_ALIVE, Timeouts
from meta_agent.llm_clients.providers._failures import of_event, of_status
from meta_agent.llm_clients.providers._sdk import SdkProvider, http_client

ANTHROPIC_URL: Final = "https://api.anthropic.com"


class AnthropicProvider(SdkProvider):
    """A connection to one server, with one key, through the anthropic SDK."""

    path = "/v1/messages"
    stream = anthropic.Stream[object]
    collector = Events

    def __init__(self, *, base_url: str | None, api_key: str, timeouts: Timeouts) -> None:
        url = base_url or ANTHROPIC_URL
        is_anthropic = urlsplit(url).hostname == urlsplit(ANTHROPIC_URL).hostname
        only = None if is_anthropic else {"x-api-key": api_key}
        client = anthropic.Anthropic(
            api_key=api_key,
            base_url=url.removesuffix("/").removesuffix("/v1"),
            max_retries=0,
            default_headers=NO_KEEP_ALIVE,
            http_client=http_client(anthropic, url, timeouts, only),
        )
        super().__init__(client, api_key, timeouts)

    def body(self, request: ChatRequest) -> dict[str, JSON]:
        return body_of(request, request.model.removeprefix("anthropic/"))

    def sdk_failure(self, error: Exception, began: bool) -> ProviderError | None:
        """Returns the ProviderError for an HTTP status or error event; None for other errors."""
        if not isinstance(error, anthropic.APIStatusError):
            return None
        answer = error.response
        if answer.status_code >= 300:
            text = answer.text if answer.is_closed else str(error)
            return of_status(answer.status_code, text, answer.headers)
        body = error.body if isinstance(error.body, Mapping) else {}
        fields = body.get("error")
        return of_event(fields if isinstance(fields, Mapping) else {"message": str(error)})
