"""Opens the client of a model's server in one call, as a run does in two."""

from __future__ import annotations

import os
from collections.abc import Mapping

from meta_agent.core.chat import Provider
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.providers._endpoints import open_endpoint, resolve_endpoint


def open_provider(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeouts: RequestTimeouts | None = None,
    environment: Mapping[str, str] | None = None,
) -> Provider:
    environment = os.environ if environment is None else environment
    return open_endpoint(resolve_endpoint(model, base_url, api_key, environment), timeouts)
