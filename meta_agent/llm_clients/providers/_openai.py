"""The only file that uses the openai SDK: OpenAI itself, and every server that speaks its protocol.

Does not cover: the responses API, images and audio, several choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import openai  # noqa: TID251

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.providers._openai_form import (
    REASONS,
    Chunks,
    body_of,
    model_name,
    without_added,
)
from meta_agent.llm_clients.providers._sdk import SdkProvider
from meta_agent.llm_clients.scrubber import Scrubber


class OpenAIProvider(SdkProvider):
    """A connection to one server, with one key, through the openai SDK."""

    sdk = openai
    vendor_url = "https://api.openai.com/v1"
    key_header = "authorization"
    key_form = "Bearer {}"
    collector = Chunks

    def __init__(
        self, *, base_url: str | None, api_key: str, timeouts: RequestTimeouts, scrubber: Scrubber
    ) -> None:
        super().__init__(base_url=base_url, api_key=api_key, timeouts=timeouts, scrubber=scrubber)
        self._refused: set[tuple[str, str]] = set()  # of models and parts of a request's body

    def open(self, body: Mapping[str, JSON]) -> AbstractContextManager[Any]:
        create = self._client.chat.completions.with_streaming_response.create
        return cast(
            "AbstractContextManager[Any]",
            create(model="", messages=[], stream=True, extra_body=body),
        )

    def chat(self, request: ChatRequest) -> ChatReply:
        while True:
            try:
                return super().chat(request)
            except ProviderError as error:
                adapted = self._adapted(request, str(error)) if error.kind == "refused" else None
                if adapted is None:
                    raise
                request = adapted

    def _adapted(self, request: ChatRequest, refusal: str) -> ChatRequest | None:
        """Returns the request to send after a refusal of what this file adds to it, or None.

        What a model refuses is remembered, so that later requests go without it.
        """
        words = {
            **{"usage": r"stream_options|include_usage", "limit": "max_completion_tokens"},
            "stream": r"(?i)\bstream(?:ing|s|ed)?\b",
        }
        for part, word in words.items():
            if (request.model, part) not in self._refused and re.search(word, refusal):
                self._refused.add((request.model, part))
                return request
        plain = without_added(request, refusal)  # few servers refuse fields that they sent
        return None if plain is request else plain

    def body(self, request: ChatRequest) -> dict[str, JSON]:
        body = body_of(request, model_name(request.model))
        # Compatible servers know `max_tokens`, and OpenAI's newer models refuse it.
        refuses = {part for model, part in self._refused if model == request.model}
        newer = self.asks_vendor != ("limit" in refuses)
        limit = "max_completion_tokens" if newer else "max_tokens"
        body |= {limit: request.max_tokens, "stream": "stream" not in refuses}
        if body["stream"] and "usage" not in refuses:
            body["stream_options"] = {"include_usage": True}
        if self.asks_vendor and REASONS.match(str(body["model"])):
            body.pop("temperature", None)
            body.pop("top_p", None)
        if request.logprobs:
            body["logprobs"] = True
            if not self.asks_vendor:  # vLLM's name; OpenAI refuses what it does not know
                body["return_token_ids"] = True
        return body
