"""Which model, server, key and price each role has, resolved once when a run opens.

`_endpoints.py` says which key goes where. Roles with one account share a provider and a breaker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from meta_agent.core.chat import ChatReply, ChatRequest, Provider
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, PreflightError, ProviderError
from meta_agent.core.ledger.waiting import waiting
from meta_agent.core.protocols import Role
from meta_agent.llm_clients.asking._retry import Breaker, Retrying, RetryPolicy
from meta_agent.llm_clients.asking._scripted import Script
from meta_agent.llm_clients.asking.prices import Price, price_of
from meta_agent.llm_clients.providers._anthropic_form import thinking_refusal
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.providers._endpoints import (
    LITELLM,
    ModelEndpoint,
    endpoint_for,
    open_endpoint,
    resolve_endpoint,
)
from meta_agent.llm_clients.providers._failures import reworded
from meta_agent.llm_clients.providers._openai_form import REASONS, model_name
from meta_agent.llm_clients.scrubber import Scrubber

META_ROLES: Final[tuple[Role, ...]] = ("analyst", "proposer", "reviewer", "librarian")
_SCRIPTED: Final = "scripted:"
_NO_KEY_NAMED: Final = "no key: name its variable with --key-env"
_PRICED_HOSTS: Final = frozenset({"api.openai.com", "api.anthropic.com"})


@dataclass(frozen=True, slots=True)
class Server:
    """A model server that the run started itself; it replaces the model that the settings name."""

    model: str  # `openai/NAME`, as it is served
    base_url: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Route:
    """How requests in one role (such as `reviewer`) reach their model, and the model's price."""

    model: str
    """The model as the settings name it, which goes into the record."""
    sent_as: str
    """The model as the provider knows it."""
    price: Price | None
    ask: Callable[[ChatRequest, str, int], ChatReply]
    """Asks once. Its arguments are the request, the conversation and the turn."""
    retrying: Retrying


def roles_in_use(config: RunConfig) -> tuple[Role, ...]:
    """Returns the roles (such as `judge`) in which a run asks a model behind a server."""
    team = META_ROLES if config.team_is_asked else ()
    policy: tuple[Role, ...] = () if config.is_local else ("policy",)
    judge: tuple[Role, ...] = ("judge",) if config.judge else ()
    reward: tuple[Role, ...] = ("reward",) if config.reward_judge else ()
    return (*team, *judge, *reward, *policy)


def effort_refusal(config: RunConfig, max_tokens: int) -> str:
    """Returns the reason why the policy's model takes no reasoning effort, or "" if it does.

    `max_tokens` is the token limit of a reply.
    """
    endpoint = endpoint_for("policy", config)
    if endpoint.provider == LITELLM:
        return "litellm would leave the effort out and say nothing"
    if endpoint.provider == "anthropic":
        return thinking_refusal(endpoint.model.removeprefix("anthropic/"), max_tokens)
    if endpoint.base_url is None and not REASONS.match(model_name(endpoint.model)):
        return "this model does not think before it replies"
    return ""


def unasked(config: RunConfig) -> list[str]:
    """Returns a warning for each model set for a role (such as `judge`) that the run never asks."""
    roles = roles_in_use(config)
    return [
        f"nobody asks a model as {role} in this run: --model {role}={model} changes nothing"
        for role, model in config.models.items()
        if role not in roles
    ]


def prices_of(
    config: RunConfig,
    stated: Mapping[str, Price],
    snapshot: Mapping[str, Price | None],
    environment: Mapping[str, str],
) -> dict[Role, Price | None]:
    """Returns the price of each role's model; None if it is unknown.

    `stated` holds the user's prices by model. `snapshot` holds those at the run's start, which win.
    """
    prices = {}
    for role in roles_in_use(config):
        own_server = _runs_own_server(config, role, environment)
        current = price_of(config.model_of(role), stated=stated, own_server=own_server)
        prices[role] = snapshot.get(role) or current
    return prices


def _runs_own_server(config: RunConfig, role: Role, environment: Mapping[str, str]) -> bool:
    """Returns True if only the owner of the role's server knows its price."""
    model = config.model_of(role)
    if "/" not in model or ":" in model.partition("/")[0]:
        return True
    # The key does not matter here, so that a missing one is no error.
    url = resolve_endpoint(model, config.base_urls.get(role), "any", environment).base_url
    return url is not None and urlsplit(url).hostname not in _PRICED_HOSTS


def require_prices(config: RunConfig, prices: Mapping[Role, Price | None]) -> None:
    """Raises PreflightError if a cap on money applies to a role whose price is unknown."""
    for role, price in prices.items():
        if price is None and (config.max_usd is not None or role in config.role_max_usd):
            model = config.model_of(role)
            raise PreflightError(
                f"money is capped, but the price of {model} (role {role}) is unknown",
                hint="cap tokens (--max-tokens) instead, or state a price in meta-agent.toml: "
                f'[prices."{model}"] input = 0.0, output = 0.0 (USD per million tokens)',
            )


def require_scripts(config: RunConfig) -> None:
    """Raises ConfigError if the file of a `scripted:FILE` model cannot be read."""
    for role in roles_in_use(config):
        if (model := config.model_of(role)).startswith(_SCRIPTED):
            _script(model)


def _script(model: str) -> Script:
    return Script.load(Path(model.removeprefix(_SCRIPTED)).expanduser())


class RoleRoutes:
    """A run's open connections: `routes[role]` is a role's Route, or raises ConfigError."""

    def __init__(
        self,
        config: RunConfig,
        prices: Mapping[Role, Price | None],
        *,
        environment: Mapping[str, str],
        servers: Mapping[Role, Server],
        timeouts: RequestTimeouts | None,
        policy: RetryPolicy,
        scrubber: Scrubber,
    ) -> None:
        self._config = config
        self._environment = environment
        self._servers = servers
        self._timeouts = timeouts or RequestTimeouts()
        self._policy, self._scrubber = policy, scrubber
        self._accounts: dict[ModelEndpoint, tuple[Provider, Breaker]] = {}
        self._routes: dict[Role, Route] = {}
        try:
            for role, price in prices.items():
                self._routes[role] = self._route(role, price)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, role: Role) -> Route:
        if role not in self._routes:
            raise ConfigError(
                f"the role {role} needs a model, but {self._config.model_of(role)} is set for it",
                hint=f"name a model: --meta-model provider/model, or --model {role}=provider/model",
            )
        return self._routes[role]

    def close(self) -> None:
        for provider, _ in self._accounts.values():
            provider.close()

    def _route(self, role: Role, price: Price | None) -> Route:
        model = self._config.model_of(role)
        if model.startswith(_SCRIPTED):
            retrying = Retrying(self._policy, Breaker())
            return Route(model, model, price, _script(model).chat, retrying)
        server = self._servers.get(role)
        if server is None:
            endpoint = endpoint_for(role, self._config, self._environment)
        else:
            endpoint = resolve_endpoint(
                server.model, server.base_url, server.api_key, self._environment
            )
        # One SDK serves every model of an account, and one breaker watches it.
        account = replace(endpoint, model="")
        if account not in self._accounts:
            provider = open_endpoint(endpoint, self._timeouts, self._scrubber)
            self._accounts[account] = (provider, Breaker())
        provider, breaker = self._accounts[account]
        place = endpoint.base_url or endpoint.model.partition("/")[0]
        key = f"key from {endpoint.key_name}" if endpoint.key_name else _NO_KEY_NAMED
        who = f"the {role}'s model {model} at {place} ({key})"
        silent_sec = self._timeouts.connect_sec + self._timeouts.silent_sec

        def ask(request: ChatRequest, _conversation: str, _turn: int) -> ChatReply:
            """Asks once. Adds whom it asked to the error of a wrong key or address."""
            with waiting(
                "model",
                f"a reply of {who}",
                limit_sec=silent_sec,
                advice="A silent call fails at its limit and is asked again. See whether the "
                "server is up.",
                command="meta-agent doctor --live",
            ):
                try:
                    return provider.chat(request)
                except ProviderError as error:
                    if error.kind in ("auth", "not_found", "connection"):
                        raise reworded(error, f"{who}: {error}") from None
                    raise

        return Route(model, endpoint.model, price, ask, Retrying(self._policy, breaker))
