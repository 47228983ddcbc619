"""Which models a run would ask, where, and with the key of which variable: for `doctor`.

It holds names of variables, never their values. `_endpoints.py` says which key goes where.

Does not cover: whether a key works. Only a request could tell, and it may cost money.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import PreflightError
from meta_agent.core.protocols import Role
from meta_agent.llm_clients.asking._roles import roles_in_use
from meta_agent.llm_clients.providers._endpoints import endpoint_for, sdk_of

_WITHOUT_SDK = {"scripted:": "script", "replay:": "recording", "vllm:": "vllm"}


@dataclass(frozen=True, slots=True)
class Account:
    """A model on a server, the roles that ask it, and the variable that holds its API key."""

    model: str
    via: str
    """The SDK, or what takes its place."""
    base_url: str | None = None  # None: the provider's own
    key_name: str = ""
    refusal: str = ""
    """Why it cannot be asked: its key is missing or is none."""
    hint: str = ""
    roles: tuple[Role, ...] = ()


def accounts(config: RunConfig, environment: Mapping[str, str] | None = None) -> list[Account]:
    """Returns the models that a run with settings `config` asks, with their servers and roles."""
    environment = os.environ if environment is None else environment
    roles_of: dict[Account, tuple[Role, ...]] = {}
    for role in roles_in_use(config):
        account = _account(config, role, environment)
        roles_of[account] = (*roles_of.get(account, ()), role)
    return [replace(account, roles=roles) for account, roles in roles_of.items()]


def _account(config: RunConfig, role: Role, environment: Mapping[str, str]) -> Account:
    model, base_url = config.model_of(role), config.base_urls.get(role)
    for prefix, via in _WITHOUT_SDK.items():
        if model.startswith(prefix):
            return Account(model, via)
    try:
        endpoint = endpoint_for(role, config, environment)
    except PreflightError as error:
        via = sdk_of(model, base_url)
        return Account(model, via, base_url, refusal=str(error), hint=error.hint or "")
    return Account(model, endpoint.provider, endpoint.base_url, endpoint.key_name)
