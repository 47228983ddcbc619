"""From a role's settings and the environment to an open provider: which SDK, where, with which key.

The rule for keys: a provider's usual variable (`OPENAI_API_KEY`, ...) goes to that provider only.
A base URL of `base_urls` gets the variable that `key_env` names for the role, and without one a
dummy, even if it is the provider's own address. `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL` in the
environment are different: there the user has set address and key side by side, under the names
that every SDK reads together, so that key goes to that address; a role with a base URL of its own
sees neither of the two.

Which SDK: a maker's own, where its row of `models.keys.MAKERS` names one; whatever else has a base
URL is the openai SDK; `litellm/provider/...` and every other provider is litellm.

Does not cover: whether a key works, which only a request can tell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit

from meta_agent.core.chat import Provider
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.protocols import Role
from meta_agent.llm_clients.keys import KEYS_OF, MAKERS, Maker
from meta_agent.llm_clients.providers._streaming import Timeouts

NO_KEY: Final = "none"
LITELLM: Final = "litellm"
OWN_SDK: Final = {n: maker for n, maker in MAKERS.items() if maker.sdk != Maker(()).sdk}
URL_VARIABLES: Final = {name: maker.url for name, maker in MAKERS.items() if maker.url}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a role's model is. `api_key` stays out of the repr; None: litellm finds it itself."""

    model: str
    provider: str  # a maker with an SDK of its own, or litellm
    base_url: str | None  # None: the provider's own
    api_key: str | None = field(repr=False)
    key_name: str = field(default="", compare=False)
    """The variable that the key is from."""

    @property
    def key_words(self) -> str:
        """Which key goes there, for people."""
        return (
            f"key from {self.key_name}"
            if self.key_name
            else "no key: name its variable with --key-env"
        )

    @property
    def place(self) -> str:
        """For people: the address, or the provider's name."""
        return self.base_url or self.model.partition("/")[0]


def endpoint_for(
    role: Role, config: RunConfig, environment: Mapping[str, str] | None = None
) -> Endpoint:
    """Resolves a role. Raises ConfigError or PreflightError, which name what to set."""
    found = os.environ if environment is None else environment
    name = config.key_env.get(role)
    if name is not None and not found.get(name):
        raise PreflightError(
            f"the key of the {role}'s server is to be in {name}, which is not set",
            hint=f"export {name}=...",
        )
    key = found[name] if name is not None else None
    at = resolve_endpoint(config.model_of(role), config.base_urls.get(role), key, found)
    return at if name is None else replace(at, key_name=name)


def resolve_endpoint(
    model: str, base_url: str | None, api_key: str | None, environment: Mapping[str, str]
) -> Endpoint:
    """An endpoint from a model string; `api_key` None: by the rule for keys above."""
    maker = model.partition("/")[0]
    if "/" not in model or ":" in maker:
        raise ConfigError(
            f"{model} is not a model behind a server",
            hint="write it as provider/model, for example openai/gpt-5 or anthropic/claude-opus-5",
        )
    sdk = sdk_of(model, base_url)
    if base_url is not None:
        _require_url(base_url)
        return Endpoint(model, sdk, base_url.rstrip("/"), api_key or NO_KEY)
    url = environment.get(URL_VARIABLES.get(maker, "")) or None
    if url is not None:
        _require_url(url)
    usual = None if api_key else _usual_key(model, environment, needed=url is None)
    key = api_key or (environment[usual] if usual else None)
    return Endpoint(model, sdk, url, key or (NO_KEY if sdk != LITELLM else None), usual or "")


def open_provider(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeouts: Timeouts | None = None,
    environment: Mapping[str, str] | None = None,
) -> Provider:
    """Opens the SDK for a model. Asks nothing yet; a key that is missing is found here."""
    found = os.environ if environment is None else environment
    return open_endpoint(resolve_endpoint(model, base_url, api_key, found), timeouts)


def open_endpoint(endpoint: Endpoint, timeouts: Timeouts | None = None) -> Provider:
    """Opens the SDK of an endpoint; SDKs are imported here, each only when one is wanted."""
    maker = OWN_SDK.get(endpoint.provider, Maker(()))
    module, _, kind = maker.sdk.partition(":")
    try:
        speaks = getattr(import_module(f"{__package__}.{module}"), kind)
    except ModuleNotFoundError as error:
        raise PreflightError(
            f"{endpoint.model} needs the package {error.name}, which is not installed",
            hint=f"pip install {error.name}",
        ) from error
    key = endpoint.api_key or (None if endpoint.provider == LITELLM else NO_KEY)
    opened: Provider = speaks(
        base_url=endpoint.base_url, api_key=key, timeouts=timeouts or Timeouts()
    )
    return opened


def sdk_of(model: str, base_url: str | None) -> str:
    """Who speaks to this model. Raises ConfigError where the string asks for the wrong one."""
    maker, _, name = model.partition("/")
    if maker == LITELLM:
        if name.partition("/")[0] in OWN_SDK:
            # Through litellm these SDKs would send headers of the environment to any address.
            raise ConfigError(f"{model} does not go through litellm", hint=f"write it as {name}")
        return LITELLM
    if maker in OWN_SDK:
        return maker
    return LITELLM if base_url is None else "openai"


def _usual_key(model: str, environment: Mapping[str, str], *, needed: bool) -> str | None:
    maker = model.removeprefix("litellm/").partition("/")[0]
    names = KEYS_OF.get(maker, ())
    usual = next((name for name in names if environment.get(name)), None)
    if usual is None and names and needed:
        raise PreflightError(
            f"{model} needs a key in {' or '.join(names)}, which is not set",
            hint=f"export {names[0]}=..., or name a server of your own: --base-url ROLE=URL",
        )
    return usual


def _require_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"the base URL {url!r} is not an http(s) address",
            hint="for example http://127.0.0.1:8000/v1",
        )
    if parts.username or parts.password:  # it would be stored with the run's settings
        raise ConfigError(
            f"the base URL of {parts.hostname} holds a password",
            hint="put the key in a variable and name it in key_env",
        )
