"""From a role's settings and the environment to an open provider: which SDK, where, with which key.

The rule for keys: a provider's usual variable (`OPENAI_API_KEY`, ...) goes to that provider only.
A base URL of `base_urls` gets the variable that `key_env` names for the role. Without one it gets a
dummy, even if it is the provider's own address. `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL` in the
environment are different: there the user has set address and key side by side, under names that
every SDK reads together. So that key goes there. A role with a base URL of its own sees neither.

Which SDK: a maker's own, if its row of `MAKERS` names one. Any other model with a base URL uses the
openai SDK. `litellm/provider/...` and every other provider use litellm.

Does not cover: whether a key works, which only a request can tell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit

from meta_agent.core.chat import Provider
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.protocols import Role
from meta_agent.llm_clients.keys import MAKERS, Maker
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.scrubber import Scrubber

NO_KEY: Final = "none"
LITELLM: Final = "litellm"
_NO_ROW: Final = Maker(())
_KEY: Final = re.compile(r"[!-~]+")
_URL: Final = re.compile(r"[^\s\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A role's model with its server, SDK and API key.

    The repr hides `api_key`. If the key is None, litellm looks for one itself.
    """

    model: str
    provider: str  # a maker with an SDK of its own, or litellm
    base_url: str | None  # None: the provider's own
    api_key: str | None = field(repr=False)
    key_name: str = field(default="", compare=False)
    """The variable that holds the key."""


def endpoint_for(
    role: Role, config: RunConfig, environment: Mapping[str, str] | None = None
) -> ModelEndpoint:
    """Returns the endpoint (model, server, SDK and key) of a role.

    Raises ConfigError or PreflightError if a setting or key is wrong or missing.
    """
    environment = os.environ if environment is None else environment
    name = config.key_env.get(role)
    key = None if name is None else _key_in(name, environment)
    if name is not None and not key:
        raise PreflightError(
            f"the variable {name}, which --key-env names for a key, is not set",
            hint=f"export {name}=...",
        )
    endpoint = resolve_endpoint(config.model_of(role), config.base_urls.get(role), key, environment)
    return endpoint if name is None else replace(endpoint, key_name=name)


def resolve_endpoint(
    model: str, base_url: str | None, api_key: str | None, environment: Mapping[str, str]
) -> ModelEndpoint:
    """Returns the endpoint (server, SDK and key) of a model string.

    If `api_key` is None, the key comes from the environment, or is a dummy with a `base_url`.
    Raises ConfigError for a wrong model or URL, and PreflightError if a key is missing.
    """
    maker = model.partition("/")[0]
    if "/" not in model or ":" in maker:
        raise ConfigError(
            f"{model} does not name a model behind a server",
            hint="write it as provider/model, for example openai/gpt-5 or anthropic/claude-opus-5",
        )
    sdk = sdk_of(model, base_url)
    if base_url is not None:
        return ModelEndpoint(model, sdk, _checked_url(base_url).rstrip("/"), api_key or NO_KEY)
    url = url_of_environment(model, environment)
    if url is not None:
        url = _checked_url(url)
    variables = usual_keys(model)
    keys = ((name, _key_in(name, environment)) for name in variables if api_key is None)
    for variable, key in keys:
        if key:
            return ModelEndpoint(model, sdk, url, key, variable)
    if api_key is None and variables and url is None:
        raise PreflightError(
            f"{model} needs a key in {' or '.join(variables)}, which is not set",
            hint=f"export {variables[0]}=..., or name a server of your own: --base-url ROLE=URL",
        )
    return ModelEndpoint(model, sdk, url, api_key or (None if sdk == LITELLM else NO_KEY))


def usual_keys(model: str) -> tuple[str, ...]:
    """Returns the environment variables that may hold the API key of a model's provider."""
    return MAKERS.get(model.removeprefix("litellm/").partition("/")[0], _NO_ROW).keys


def url_of_environment(model: str, environment: Mapping[str, str]) -> str | None:
    """Returns the base URL of a model's provider from the environment, or None if none is set."""
    variable = MAKERS.get(model.partition("/")[0], _NO_ROW).url
    return environment.get(variable) or None


def _key_in(variable: str, environment: Mapping[str, str]) -> str:
    """Returns the key in a variable, or "" if it holds none. Raises PreflightError for no key.

    Blanks around the key, such as the line break of the file that it came from, are left out.
    """
    key = environment.get(variable, "").strip()
    if key and not _KEY.fullmatch(key):
        raise PreflightError(
            f"the value of {variable} is no API key: it holds a blank, a line break or a character "
            "beyond ASCII inside",
            hint=f"copy the key anew: export {variable}=...",
        )
    return key


def open_endpoint(
    endpoint: ModelEndpoint,
    timeouts: RequestTimeouts | None = None,
    scrubber: Scrubber | None = None,
) -> Provider:
    """Returns a client of an endpoint's model server. `scrubber` takes secrets out of its errors.

    Raises PreflightError without its SDK, or if a variable for proxies or certificates is wrong.
    """
    module, _, name = MAKERS.get(endpoint.provider, _NO_ROW).sdk.partition(":")
    try:
        provider_class = getattr(import_module(f"{__package__}.{module}"), name)
    except ModuleNotFoundError as error:
        raise PreflightError(
            f"{endpoint.model} needs the package {error.name}, which is not installed",
            hint=f"pip install {error.name}",
        ) from error
    provider: Provider = provider_class(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        timeouts=timeouts or RequestTimeouts(),
        scrubber=scrubber or Scrubber.of((), os.environ, [endpoint.api_key]),
    )
    return provider


def sdk_of(model: str, base_url: str | None) -> str:
    """Returns which SDK serves a model: `openai`, `anthropic` or `litellm`.

    Raises ConfigError if the model string asks for litellm although its provider's SDK is used.
    """
    maker, _, name = model.partition("/")
    if maker == LITELLM:
        if _has_own_sdk(name):
            # Through litellm these SDKs would send headers of the environment to any address.
            raise ConfigError(
                f"{model} is not called by litellm, but by an SDK of its own", hint=f"write {name}"
            )
        return LITELLM
    if _has_own_sdk(model):
        return maker
    return LITELLM if base_url is None else "openai"


def _has_own_sdk(model: str) -> bool:
    return MAKERS.get(model.partition("/")[0], _NO_ROW).sdk != _NO_ROW.sdk


def _checked_url(url: str) -> str:
    """Returns a base URL without blanks around it. Raises ConfigError if it is none."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port or an address of IPv6 that is none
        sound = False
    if not sound or not _URL.fullmatch(url):
        description = "(which holds a login)" if "@" in url else repr(url)
        raise ConfigError(
            f"the base URL {description} is not an http(s) address",
            hint="use an address such as http://127.0.0.1:8000/v1",
        )
    if parts.username or parts.password:  # it would be stored with the run's settings
        raise ConfigError(
            f"the base URL of {parts.hostname} holds a password",
            hint="put the key in an environment variable: --key-env ROLE=VARIABLE",
        )
    return url
