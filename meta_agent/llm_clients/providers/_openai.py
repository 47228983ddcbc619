"""The only file that uses the openai SDK: OpenAI itself, and every server that speaks its protocol.

Promises: one request per `chat`, streamed, with the SDK's retries off and redirects not followed.
At a base URL of the user's own only the key meant for it goes out: organisation, project and
custom headers that the SDK reads from the environment are taken off again.

Does not cover: the responses API, images and audio, several choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import openai  # noqa: TID251

from meta_agent.core.chat import ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.providers._connection import NO_KEEP_ALIVE, Timeouts
from meta_agent.llm_clients.providers._failures import is_transport, of_event, of_status
from meta_agent.llm_clients.providers._openai_form import REASONS, Chunks, body_of, model_name
from meta_agent.llm_clients.providers._sdk import SdkProvider, http_client

OPENAI_URL: Final = "https://api.openai.com/v1"


class OpenAIProvider(SdkProvider):
    """A connection to one server, with one key, through the openai SDK."""

    path = "/chat/completions"
    stream = openai.Stream[object]
    collector = Chunks

    def __init__(self, *, base_url: str | None, api_key: str, timeouts: Timeouts) -> None:
        url = base_url or OPENAI_URL
        self._is_openai = urlsplit(url).hostname == urlsplit(OPENAI_URL).hostname
        only = None if self._is_openai else {"authorization": f"Bearer {api_key}"}
        client = openai.OpenAI(
            api_key=api_key,
            base_url=url,
            max_retries=0,
            default_headers=NO_KEEP_ALIVE,
            http_client=http_client(openai, url, timeouts, only),
        )
        super().__init__(client, api_key, timeouts)

    def body(self, request: ChatRequest) -> dict[str, JSON]:
        body = body_of(request, model_name(request.model))
        # Compatible servers know `max_tokens`, and OpenAI's newer models refuse it.
        limit = "max_completion_tokens" if self._is_openai else "max_tokens"
        body |= {limit: request.max_tokens, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if self._is_openai and REASONS.match(str(body["model"])):
            body.pop("temperature", None)
            body.pop("top_p", None)
        if request.logprobs:
            body["logprobs"] = True
            if not self._is_openai:  # vLLM's name; OpenAI refuses what it does not know
                body["return_token_ids"] = True
        return body

    def sdk_failure(self, error: Exception, began: bool) -> ProviderError | None:
        if isinstance(error, openai.APIStatusError):
            answer = error.response
            text = answer.text if answer.is_closed else str(error)
            return of_status(error.status_code, text, answer.headers)
        if isinstance(error, openai.APIError) and not is_transport(error):
            fields = error.body if isinstance(error.body, Mapping) else {"message": str(error)}
            return of_event(fields)
        return None
