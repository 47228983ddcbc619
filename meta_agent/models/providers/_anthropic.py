"""The only file that uses the anthropic SDK: Anthropic itself, and servers that speak its protocol.

Promises: one request per `chat`, streamed, with the SDK's retries off and redirects not followed (a
redirect would carry the key along). Prompt caching is always asked for; thinking where the request
has a budget for it. At a base URL of the user's own only the key meant for it goes out.

Does not cover: batches, files, and tools that the provider runs itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import anthropic  # noqa: TID251

from meta_agent.errors import ProviderError
from meta_agent.models.chat import ChatReply, ChatRequest
from meta_agent.models.providers._anthropic_form import Events, body_of
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

ANTHROPIC_URL: Final = "https://api.anthropic.com"


class AnthropicProvider:
    """One account at one server. Threads may call `chat` at the same time."""

    def __init__(self, *, base_url: str | None, api_key: str, timeouts: Timeouts) -> None:
        self._secrets = (api_key,)
        self._timeouts = timeouts
        url = base_url or ANTHROPIC_URL
        is_anthropic = urlsplit(url).hostname == urlsplit(ANTHROPIC_URL).hostname
        self._client = anthropic.Anthropic(
            api_key=api_key,
            base_url=url.removesuffix("/").removesuffix("/v1"),
            max_retries=0,
            default_headers=ONE_EACH,
            http_client=guard(
                anthropic.DefaultHttpxClient(
                    timeout=anthropic.Timeout(timeouts.read_sec, connect=timeouts.connect_sec),
                    follow_redirects=False,
                    trust_env=not is_loopback(url),
                    event_hooks={"request": [] if is_anthropic else [only({"x-api-key": api_key})]},
                ),
            ),
        )

    def chat(self, request: ChatRequest) -> ChatReply:
        """Asks once. Raises ProviderError for everything that is not a whole reply."""
        body = body_of(request, request.model.removeprefix("anthropic/"))
        line = Line(lambda: self._open(body), self._timeouts, self._typed)
        return heard(line.listen(), Events(), request, secrets=self._secrets)

    def close(self) -> None:
        self._client.close()

    def _open(self, body: Mapping[str, JSON]) -> Opened:
        return Opened(
            self._client.post(
                "/v1/messages",
                body=dict(body),
                cast_to=object,
                stream=True,
                stream_cls=anthropic.Stream[object],
            )
        )

    def _typed(self, error: BaseException, began: bool) -> ProviderError:
        if ours := of_ours(error):
            return ours
        if isinstance(error, anthropic.APIStatusError):
            return self._of_status(error)
        if is_transport(error):
            return of_transport(error, began=began, secrets=self._secrets)
        if isinstance(error, ValueError | RecursionError):
            return malformed(f"the stream can't be read: {error}", secrets=self._secrets)
        return unknown(error, secrets=self._secrets)

    def _of_status(self, error: anthropic.APIStatusError) -> ProviderError:
        """The SDK raises this for an error event too, with the status that began the stream."""
        if error.response.status_code >= 300:
            text = error.response.text if error.response.is_closed else str(error)
            headers = error.response.headers
            return of_status(error.response.status_code, text, headers, secrets=self._secrets)
        body = error.body if isinstance(error.body, Mapping) else {}
        fields = body.get("error")
        given = fields if isinstance(fields, Mapping) else {"message": str(error)}
        return of_event(given, secrets=self._secrets)
