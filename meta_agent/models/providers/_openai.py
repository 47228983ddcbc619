"""The only file that uses the openai SDK: OpenAI itself, and every server that speaks its protocol.

Promises: one request per `chat`, streamed, with the SDK's retries off and redirects not followed.
At a base URL of the user's own only the key meant for it goes out: organisation, project and
custom headers that the SDK reads from the environment are taken off again.

Does not cover: the responses API, images and audio, several choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import openai  # noqa: TID251

from meta_agent.errors import ProviderError
from meta_agent.models.chat import ChatReply, ChatRequest
from meta_agent.models.providers._chunks import Chunks, body_of, model_name
from meta_agent.models.providers._failures import (
    is_transport,
    malformed,
    of_event,
    of_ours,
    of_status,
    of_transport,
    unknown,
)
from meta_agent.models.providers._streaming import Line, Timeouts
from meta_agent.models.providers._validate import heard
from meta_agent.models.providers._wire import ONE_EACH, Opened, guard, is_loopback, only
from meta_agent.protocols import JSON

OPENAI_URL: Final = "https://api.openai.com/v1"
# These refuse `temperature` and `top_p`; the chat variants of the family take them.
_REASONS: Final = re.compile(r"^(?:o\d|gpt-[5-9])(?!.*chat)")


class OpenAIProvider:
    """One account at one server. `close` ends its connections; `chat` may be called by threads."""

    def __init__(self, *, base_url: str | None, api_key: str, timeouts: Timeouts) -> None:
        url = base_url or OPENAI_URL
        bearer = {"authorization": f"Bearer {api_key}"}
        self._is_openai = urlsplit(url).hostname == urlsplit(OPENAI_URL).hostname
        self._secrets = (api_key,)
        self._timeouts = timeouts
        self._client = openai.OpenAI(
            api_key=api_key,
            base_url=url,
            max_retries=0,
            default_headers=ONE_EACH,
            http_client=guard(
                openai.DefaultHttpxClient(
                    timeout=openai.Timeout(timeouts.read_sec, connect=timeouts.connect_sec),
                    follow_redirects=False,
                    # A proxy for the world is none for this machine.
                    trust_env=not is_loopback(url),
                    event_hooks={"request": [] if self._is_openai else [only(bearer)]},
                ),
            ),
        )

    def chat(self, request: ChatRequest) -> ChatReply:
        """Asks once. Raises ProviderError for everything that is not a whole reply."""
        body = self._body(request)
        line = Line(lambda: self._open(body), self._timeouts, self._typed)
        return heard(line.listen(), Chunks(), request, secrets=self._secrets)

    def close(self) -> None:
        self._client.close()

    def _body(self, request: ChatRequest) -> dict[str, JSON]:
        body = body_of(request, model_name(request.model))
        # `max_tokens` is what compatible servers know, and what OpenAI's newer models refuse.
        limit = "max_completion_tokens" if self._is_openai else "max_tokens"
        body |= {limit: request.max_tokens, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if self._is_openai and _REASONS.match(str(body["model"])):
            body.pop("temperature", None)
            body.pop("top_p", None)
        if request.logprobs:
            body["logprobs"] = True
            if not self._is_openai:  # vLLM's name; OpenAI refuses what it does not know
                body["return_token_ids"] = True
        return body

    def _open(self, body: Mapping[str, JSON]) -> Opened:
        return Opened(
            self._client.post(
                "/chat/completions",
                body=dict(body),
                cast_to=object,
                stream=True,
                stream_cls=openai.Stream[object],
            )
        )

    def _typed(self, error: BaseException, began: bool) -> ProviderError:
        if ours := of_ours(error):
            return ours
        if isinstance(error, openai.APIStatusError):
            text = error.response.text if error.response.is_closed else str(error)
            headers = error.response.headers
            return of_status(error.status_code, text, headers, secrets=self._secrets)
        if is_transport(error):
            return of_transport(error, began=began, secrets=self._secrets)
        if isinstance(error, openai.APIError):
            fields = error.body if isinstance(error.body, Mapping) else {"message": str(error)}
            return of_event(fields, secrets=self._secrets)
        # A line of the stream is not JSON, not UTF-8, or nested without an end.
        if isinstance(error, ValueError | RecursionError):
            return malformed(f"the stream can't be read: {error}", secrets=self._secrets)
        return unknown(error, secrets=self._secrets)
