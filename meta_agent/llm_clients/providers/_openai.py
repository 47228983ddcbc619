"""The only file that uses the openai SDK: OpenAI itself, and every server that speaks its protocol.

Does not cover: the responses API, images and audio, several choices.
"""

from __future__ import annotations

import openai  # noqa: TID251

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._openai_form import (
    REASONS,
    Chunks,
    body_of,
    model_name,
    without_added,
)
from meta_agent.llm_clients.providers._sdk import SdkProvider


class OpenAIProvider(SdkProvider):
    """A connection to one server, with one key, through the openai SDK."""

    sdk = openai
    vendor_url = "https://api.openai.com/v1"
    path = "/chat/completions"
    key_header = "authorization"
    key_form = "Bearer {}"
    collector = Chunks

    def chat(self, request: ChatRequest) -> ChatReply:
        try:
            return super().chat(request)
        except ProviderError as error:
            plain = without_added(request, str(error)) if error.kind == "refused" else request
            if plain is request:
                raise
        return super().chat(plain)  # a few servers refuse the fields that they send themselves

    def body(self, request: ChatRequest) -> dict[str, JSON]:
        body = body_of(request, model_name(request.model))
        # Compatible servers know `max_tokens`, and OpenAI's newer models refuse it.
        limit = "max_completion_tokens" if self.asks_vendor else "max_tokens"
        body |= {limit: request.max_tokens, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if self.asks_vendor and REASONS.match(str(body["model"])):
            body.pop("temperature", None)
            body.pop("top_p", None)
        if request.logprobs:
            body["logprobs"] = True
            if not self.asks_vendor:  # vLLM's name; OpenAI refuses what it does not know
                body["return_token_ids"] = True
        return body
