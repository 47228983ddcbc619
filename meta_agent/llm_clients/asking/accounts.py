"""Which models a run would ask, where, and with the key of which variable: looked up, not used.

For `doctor` and for people: names of variables, never their values. Which key goes where is the
rule of `_endpoints.py`.

Does not cover: whether a key works. Only asking could tell, and asking may cost money.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import Role
from meta_agent.llm_clients.asking.client import roles_in_use
from meta_agent.llm_clients.keys import KEYS_OF
from meta_agent.llm_clients.providers._endpoints import URL_VARIABLES, sdk_of


@dataclass(frozen=True, slots=True)
class Account:
    """One model on one server, for the roles that share it."""

    model: str
    via: str
    roles: tuple[Role, ...]
    base_url: str | None  # None: the provider's own
    variables: tuple[str, ...]  # any of these may hold the key
    found: str | None  # the one that does

    @property
    def lacks_key(self) -> bool:
        """A variable is known to be needed, and none is set."""
        return bool(self.variables) and self.found is None


def accounts(config: RunConfig, environment: Mapping[str, str] | None = None) -> list[Account]:
    """Every account of a run with these settings, in the order of its roles."""
    found = os.environ if environment is None else environment
    by_account: dict[tuple[str, str | None, tuple[str, ...]], list[Role]] = {}
    for role in roles_in_use(config):
        key = (config.model_of(role), _url(config, role, found), _variables(config, role, found))
        by_account.setdefault(key, []).append(role)
    return [
        Account(
            model,
            _via(model, url),
            tuple(roles),
            url,
            variables,
            next((name for name in variables if found.get(name)), None),
        )
        for (model, url, variables), roles in by_account.items()
    ]


def _url(config: RunConfig, role: Role, environment: Mapping[str, str]) -> str | None:
    own = config.base_urls.get(role)
    return own or environment.get(URL_VARIABLES.get(_maker(config.model_of(role)), "")) or None


def _variables(config: RunConfig, role: Role, environment: Mapping[str, str]) -> tuple[str, ...]:
    if named := config.key_env.get(role):
        return (named,)
    if role in config.base_urls:
        return ()
    usual = KEYS_OF.get(_maker(config.model_of(role).removeprefix("litellm/")), ())
    elsewhere = _url(config, role, environment) is not None  # which may need no key
    return () if elsewhere and not any(map(environment.get, usual)) else usual


def _maker(model: str) -> str:
    """The provider that a model string names; of one that is not behind a server: nobody."""
    maker, slash, _ = model.partition("/")
    return maker if slash and ":" not in maker else ""


def _via(model: str, base_url: str | None) -> str:
    local = next((via for prefix, via in _LOCAL.items() if model.startswith(prefix)), None)
    return local or sdk_of(model, base_url)


_LOCAL: Final[Mapping[str, str]] = {
    "scripted:": "script",
    "replay:": "recording",
    "vllm:": "vllm",
}
