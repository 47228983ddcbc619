"""The only file that uses litellm: every provider that is neither OpenAI nor Anthropic.

litellm is imported at the first provider, not before: that takes seconds. What it would do at
import or unasked is turned off: it reads no `.env` file of the current directory, fetches no price
table from the network, and neither retries nor prints.

litellm also hides faults: it gives a stream that ends early the stop reason "stop", and estimates
usage that never came. So both are taken from what its wrapper received.

Does not cover: providers' own extras such as thinking budgets and prompt caching, and a deadline
for a provider that litellm reaches without its HTTP client.
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
from meta_agent.llm_clients.providers._connection import RequestTimeouts, guard, usable_environment
from meta_agent.llm_clients.providers._failures import (
    causes,
    is_transport,
    of_event,
    of_status,
    of_transport,
)
from meta_agent.llm_clients.providers._openai_form import Chunks, body_of
from meta_agent.llm_clients.providers._reply import read_reply
from meta_agent.llm_clients.scrubber import Scrubber

PREFIX: Final = "litellm/"  # asks for litellm where the provider or base URL has another SDK
_AT_IMPORT: Final = {
    "LITELLM_MODE": "PRODUCTION",  # anything but DEV: no .env file is read
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download
}
_import_lock = threading.Lock()


class LiteLLMProvider:
    """A connection to one provider, with one key, through litellm. Any thread may call `chat`."""

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        timeouts: RequestTimeouts,
        scrubber: Scrubber,
    ) -> None:
        with usable_environment():
            self._litellm = _imported()
        self._base_url = base_url
        self._api_key = api_key
        self._scrubber = scrubber
        self._timeouts = timeouts

    def chat(self, request: ChatRequest) -> ChatReply:
        arguments = self._arguments(request)
        return read_reply(
            lambda: _received(self._litellm.completion(**arguments)),
            Chunks(),
            request,
            timeouts=self._timeouts,
            scrubber=self._scrubber,
            sdk_failure=self._failure,
        )

    def close(self) -> None:
        """Does nothing: litellm shares its connections between all callers and keeps them."""

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
            # Otherwise a request with tools imports litellm's MCP client, which is not installed.
            "_skip_mcp_handler": True,
        }

    def _failure(self, error: Exception, began: bool) -> ProviderError | None:
        status = getattr(error, "status_code", None)
        headers = next((h for cause in causes(error) if (h := _headers_of(cause))), None)
        # litellm makes up statuses for errors that never had one, but no headers.
        if isinstance(status, int) and (headers is not None or 400 <= status < 408):
            return of_status(status, str(error), headers or {})
        broken = type(error).__name__ == "MidStreamFallbackError"
        if is_transport(error) or "Timeout" in type(error).__name__:
            return of_transport(error, began=began or broken)
        if broken:
            text = str(getattr(error, "original_exception", None) or error)
            return of_event({"message": text}, began=True)
        if status is not None:
            return of_transport(error, began=began)
        return None


def _received(wrapper: Any) -> Iterator[dict[str, Any]]:
    """Yields litellm's stream with the stop reason and the usage that its wrapper received."""
    for chunk in wrapper:
        plain = chunk.model_dump()
        plain.pop("usage", None)
        for choice in plain["choices"]:
            choice.pop("finish_reason", None)
        yield plain
    reason = wrapper.received_finish_reason or wrapper.intermittent_finish_reason
    usages = [chunk.get("usage") for chunk in wrapper.chunks if chunk.get("usage")]
    yield {
        "choices": [{"index": 0, "finish_reason": reason}] if reason else [],
        "usage": usages[-1].model_dump() if usages and reason else None,
    }


def _headers_of(error: BaseException) -> Mapping[str, str] | None:
    headers = getattr(error, "litellm_response_headers", None)
    return headers if isinstance(headers, Mapping) and headers else None


def _guard_clients(litellm: Any) -> None:
    """Puts our limits on every HTTP client that litellm makes; all its providers share them."""
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
