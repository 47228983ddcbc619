"""The only file that uses litellm: every provider that is neither OpenAI nor Anthropic.

litellm is imported at the first provider, not before: it takes seconds. What it would do at import
or behind our back is turned off: reading a `.env` file of the current directory, fetching its
price table from the network, retries, fallbacks, callbacks, printing.

It also hides faults: a stream that just ends gets the stop reason "stop", and usage that never came
is estimated. So both are taken from what its wrapper says it received, not from what it tells.

Does not cover: providers' own extras such as thinking budgets and prompt caching.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._chunks import Chunks, body_of
from meta_agent.llm_clients.providers._failures import (
    causes,
    is_transport,
    malformed,
    of_event,
    of_ours,
    of_status,
    of_transport,
)
from meta_agent.llm_clients.providers._streaming import Line, Timeouts
from meta_agent.llm_clients.providers._validate import heard
from meta_agent.llm_clients.providers._wire import guard

PREFIX: Final = "litellm/"  # says it outright, for a provider or base URL that another SDK takes
_AT_IMPORT: Final = {
    "LITELLM_MODE": "PRODUCTION",  # anything but DEV: no .env file is read
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download
}
_import_lock = threading.Lock()


class LiteLLMProvider:
    """One account at one of litellm's providers. Threads may call `chat` at the same time."""

    def __init__(self, *, base_url: str | None, api_key: str | None, timeouts: Timeouts) -> None:
        self._litellm = _imported()
        self._base_url = base_url
        self._api_key = api_key
        self._secrets = tuple(filter(None, [api_key, *_secrets_around()]))
        self._timeouts = timeouts

    def chat(self, request: ChatRequest) -> ChatReply:
        arguments = self._arguments(request)
        line = Line(lambda: _Received(self._litellm, arguments), self._timeouts, self._typed)
        return heard(line.listen(), Chunks(), request, secrets=self._secrets)

    def close(self) -> None:
        """litellm shares its connections between all callers and keeps them."""

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        return {
            **body_of(request, request.model.removeprefix(PREFIX)),
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "api_base": self._base_url,
            "api_key": self._api_key,
            "timeout": self._timeouts.read_sec,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,  # what a provider does not know is left out, not refused
            "no-log": True,
            # Else a request with tools imports litellm's MCP client, which it does not depend on.
            "_skip_mcp_handler": True,
        }

    def _typed(self, error: BaseException, began: bool) -> ProviderError:
        if ours := of_ours(error):
            return ours
        status = getattr(error, "status_code", None)
        headers = next((h for one in causes(error) if (h := _headers_of(one)) is not None), None)
        # Statuses are made up for errors that never had one; headers are not.
        if isinstance(status, int) and (headers is not None or 400 <= status < 408):
            return of_status(status, str(error), headers or {}, secrets=self._secrets)
        if is_transport(error) or "Timeout" in type(error).__name__:
            return of_transport(error, began=began or _mid_stream(error), secrets=self._secrets)
        if _mid_stream(error):
            return _of_broken_stream(error, secrets=self._secrets)
        if isinstance(error, ValueError | RecursionError) and status is None:
            return malformed(f"the stream can't be read: {error}", secrets=self._secrets)
        return of_transport(error, began=began, secrets=self._secrets)


class _Received:
    """litellm's stream without what it makes up: its stop reasons and usage are those received."""

    def __init__(self, litellm: Any, arguments: Mapping[str, Any]) -> None:
        self._wrapper = litellm.completion(**arguments)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for chunk in self._wrapper:
            plain = chunk.model_dump()
            plain.pop("usage", None)
            for choice in plain["choices"]:
                choice.pop("finish_reason", None)
            yield plain
        yield self._last()

    def _last(self) -> dict[str, Any]:
        wrapper = self._wrapper
        reason = wrapper.received_finish_reason or wrapper.intermittent_finish_reason
        usages = [chunk.get("usage") for chunk in wrapper.chunks if chunk.get("usage")]
        usage = usages[-1].model_dump() if usages and reason else None
        return {
            "choices": [{"index": 0, "finish_reason": reason}] if reason else [],
            "usage": usage,
        }


def _of_broken_stream(error: BaseException, *, secrets: tuple[str, ...]) -> ProviderError:
    text = str(getattr(error, "original_exception", None) or error)
    if "timed out" in text:
        return ProviderError("the server went silent in the middle of its reply", kind="timeout")
    return of_event({"message": text}, secrets=secrets)


def _mid_stream(error: BaseException) -> bool:
    return type(error).__name__ == "MidStreamFallbackError"


def _headers_of(error: BaseException) -> Mapping[str, str] | None:
    headers = getattr(error, "litellm_response_headers", None)
    return headers if isinstance(headers, Mapping) and headers else None


def _secrets_around() -> list[str]:
    """Values of the variables litellm may take a key from by itself: they must not be echoed."""
    marks = ("KEY", "TOKEN", "SECRET", "PASSWORD")
    return [
        value
        for name, value in os.environ.items()
        if len(value) >= 8 and any(mark in name for mark in marks)
    ]


def _guard_clients(litellm: Any) -> None:
    """Our limits on every HTTP client that it makes; they are shared by all providers."""
    handlers: Any = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    make = handlers.HTTPHandler.create_client
    if litellm.client_session is None:
        handlers.HTTPHandler.create_client = lambda handler: guard(make(handler))
        litellm.client_session = handlers.HTTPHandler().client


def _imported() -> Any:
    with _import_lock:
        before = {name: os.environ.get(name) for name in _AT_IMPORT}
        os.environ.update(_AT_IMPORT)
        try:
            litellm: Any = importlib.import_module("litellm")
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        _guard_clients(litellm)
        litellm.suppress_debug_info = True
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
        return litellm
