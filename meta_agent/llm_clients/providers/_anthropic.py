"""The only file that uses the anthropic SDK: Anthropic itself, and servers that speak its protocol.

Does not cover: batches, files, and tools that the provider runs itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import anthropic  # noqa: TID251

from meta_agent.core.chat import ChatRequest
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._anthropic_form import Events, body_of
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.providers._sdk import SdkProvider
from meta_agent.llm_clients.scrubber import Scrubber


class AnthropicProvider(SdkProvider):
    """A connection to one server, with one key, through the anthropic SDK."""

    sdk = anthropic
    vendor_url = "https://api.anthropic.com"
    key_header = "x-api-key"
    collector = Events

    def __init__(
        self, *, base_url: str | None, api_key: str, timeouts: RequestTimeouts, scrubber: Scrubber
    ) -> None:
        url = base_url and base_url.removesuffix("/").removesuffix("/v1")
        super().__init__(base_url=url, api_key=api_key, timeouts=timeouts, scrubber=scrubber)

    def open(self, body: Mapping[str, JSON]) -> AbstractContextManager[Any]:
        create = self._client.messages.with_streaming_response.create
        return cast(
            "AbstractContextManager[Any]",
            create(model="", messages=[], max_tokens=1, stream=True, extra_body=body),
        )

    def body(self, request: ChatRequest) -> dict[str, JSON]:
        return body_of(request, request.model.removeprefix("anthropic/"))
