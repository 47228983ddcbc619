"""The only file that uses the openai SDK: OpenAI itself, and every server that speaks its protocol.

Promises: one request per `chat`, streamed, with the SDK's retries off and redirects not followed.
At a base URL of the user's own only the key meant for it goes out: organisation, project and
custom headers that the SDK reads from the environment are taken off again.

Does not cover: the responses API, images and audio, several choices.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import openai  # noqa: TID251

from meta_agent.errors import ProviderError
from meta_agent.models._chunks import Chunks, body_of, model_name
from meta_agent.models._failures import (
    causes,
    malformed,
    of_event,
    of_status,
    of_transport,
)
from meta_agent.models._streaming import Line, Timeouts
from meta_agent.models._validate import accept
from meta_agent.models.chat import ChatReply, ChatRequest
from meta_agent.protocols import JSON

OPENAI_URL: Final = "https://api.openai.com/v1"
# These refuse `temperature` and `top_p`; the chat variants of the family take them.
_REASONS: Final = re.compile(r"^(?:o\d|gpt-[5-9])(?!.*chat)")
_KEPT_HEADERS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"}
    | {"user-agent", "transfer-encoding"}
)


class OpenAIProvider:
    """One account at one server. `close` ends its connections; `chat` may be called by threads."""

    def __init__(self, *, base_url: str | None, api_key: str, timeouts: Timeouts) -> None:
        self._is_openai = base_url is None or urlsplit(base_url).hostname == "api.openai.com"
        self._secrets = (api_key,)
        self._timeouts = timeouts
        self._client = openai.OpenAI(
            api_key=api_key,
            base_url=base_url or OPENAI_URL,
            max_retries=0,
            http_client=self._http_client(base_url or OPENAI_URL, api_key),
        )

    def chat(self, request: ChatRequest) -> ChatReply:
        """Asks once. Raises ProviderError for everything that is not a whole reply."""
        started = time.monotonic()
        body = self._body(request)
        chunks = Chunks(self._secrets)
        for chunk in Line(lambda: self._open(body), self._timeouts, self._typed).listen():
            chunks.add(chunk)
        return accept(chunks.finish(), request, seconds=time.monotonic() - started)

    def close(self) -> None:
        self._client.close()

    def _body(self, request: ChatRequest) -> dict[str, JSON]:
        body = body_of(request, model_name(request.model, "openai"))
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

    def _open(self, body: Mapping[str, JSON]) -> _Opened:
        stream = self._client.post(
            "/chat/completions",
            body=dict(body),
            cast_to=object,
            stream=True,
            stream_cls=openai.Stream[object],
        )
        kind = stream.response.headers.get("content-type", "")
        if "text/event-stream" not in kind:
            stream.close()
            raise malformed(f"the server answered with {kind or 'no content type'}, not a stream")
        return _Opened(stream)

    def _typed(self, error: BaseException, began: bool) -> ProviderError:
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, openai.APIStatusError):
            text = error.response.text if error.response.is_closed else str(error)
            headers = error.response.headers
            return of_status(error.status_code, text, headers, secrets=self._secrets)
        if any(isinstance(one, httpx.TransportError) for one in causes(error)):
            return of_transport(error, began=began, secrets=self._secrets)
        if isinstance(error, openai.APIError):
            fields = error.body if isinstance(error.body, Mapping) else {"message": str(error)}
            return of_event(fields, secrets=self._secrets)
        if isinstance(error, ValueError):  # a line of the stream is not JSON, or not UTF-8
            return malformed(f"the stream can't be read: {error}", secrets=self._secrets)
        return of_transport(error, began=began, secrets=self._secrets)

    def _http_client(self, base_url: str, api_key: str) -> httpx.Client:
        patience = httpx.Timeout(self._timeouts.read_sec, connect=self._timeouts.connect_sec)

        def keep_out(outgoing: httpx.Request) -> None:
            for name in list(outgoing.headers):
                if name not in _KEPT_HEADERS:
                    del outgoing.headers[name]
            outgoing.headers["authorization"] = f"Bearer {api_key}"

        return httpx.Client(
            timeout=patience,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=not is_loopback(base_url),  # a proxy for the world is none for this machine
            event_hooks={"request": [] if self._is_openai else [keep_out]},
        )


class _Opened:
    """The SDK's stream, with its response in reach of whoever must end it."""

    def __init__(self, stream: Any) -> None:
        self.response = stream.response
        self._stream = stream

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)

    def close(self) -> None:
        self._stream.close()


def is_loopback(url: str) -> bool:
    """Whether a URL means this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
