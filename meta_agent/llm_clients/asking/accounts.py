"""Which models a run would ask, where, and with the key of which variable: for `doctor`.

It holds names of variables, never their values. `_endpoints.py` says which key goes where.

Does not cover: whether a key works. Only a request could tell, and it may cost money.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import Role
from meta_agent.llm_clients.asking._roles import roles_in_use
from meta_agent.llm_clients.providers._endpoints import sdk_of, url_of_environment, usual_keys

_WITHOUT_SDK = {"scripted:": "script", "replay:": "recording", "vllm:": "vllm"}


@dataclass(frozen=True, slots=True)
class Account:
    """A model on a server: the roles that ask it, and the variables that may hold its API key."""

    model: str
    via: str
    """The SDK, or what stands in its place."""
    roles: tuple[Role, ...]
    base_url: str | None  # None: the provider's own
    variables: tuple[str, ...]
    """Any of these may hold the key."""
    key_name: str | None
    """The variable that does."""

    @property
    def lacks_key(self) -> bool:
        """Returns True if an API key is needed and no environment variable holds one."""
        return bool(self.variables) and self.key_name is None


def accounts(config: RunConfig, environment: Mapping[str, str] | None = None) -> list[Account]:
    """Returns the models that a run with settings `config` asks, with their servers and roles."""
    environment = os.environ if environment is None else environment
    roles: dict[tuple[str, str | None, tuple[str, ...]], list[Role]] = {}
    for role in roles_in_use(config):
        roles.setdefault(_place_of(config, role, environment), []).append(role)
    return [
        Account(
            model,
            _via(model, url),
            tuple(sharing),
            url,
            variables,
            next((name for name in variables if environment.get(name)), None),
        )
        for (model, url, variables), sharing in roles.items()
    ]


def _place_of(
    config: RunConfig, role: Role, environment: Mapping[str, str]
) -> tuple[str, str | None, tuple[str, ...]]:
    """Returns the role's model, its base URL, and the variables that may hold its key."""
    model, base_url = config.model_of(role), config.base_urls.get(role)
    url = base_url or url_of_environment(model, environment)
    if name := config.key_env.get(role):
        return model, url, (name,)
    variables = () if base_url else usual_keys(model)
    if url and not any(map(environment.get, variables)):
        return model, url, ()  # a server of one's own may need no key
    return model, url, variables


def _via(model: str, base_url: str | None) -> str:
    prefixes = (via for prefix, via in _WITHOUT_SDK.items() if model.startswith(prefix))
    return next(prefixes, None) or sdk_of(model, base_url)
