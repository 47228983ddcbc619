"""Which model, server, key and price each role has, resolved once when a run opens.

Which key goes where is the rule of `_endpoints.py`. Providers and breakers are shared by the roles
that have the same account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from meta_agent.core.chat import ChatReply, ChatRequest, Provider
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.protocols import Role
from meta_agent.llm_clients.asking._retry import Breaker, Retrying, RetryPolicy
from meta_agent.llm_clients.asking._scripted import Script
from meta_agent.llm_clients.asking._silence import Watch
from meta_agent.llm_clients.asking.prices import Price, price_of
from meta_agent.llm_clients.providers._endpoints import (
    Endpoint,
    endpoint_for,
    open_endpoint,
    resolve_endpoint,
)
from meta_agent.llm_clients.providers._streaming import Timeouts

META_ROLES: Final[tuple[Role, ...]] = ("analyst", "proposer", "reviewer", "librarian")
_SCRIPTED: Final = "scripted:"
_PROVIDERS_OWN: Final = frozenset({"api.openai.com", "api.anthropic.com"})


@dataclass(frozen=True, slots=True)
class Server:
    """A server that we started ourselves, in the place of what the settings say."""

    model: str  # `openai/NAME`, as it is served
    base_url: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Line:
    """How one role reaches its model."""

    model: str  # as the settings name it: this goes into the record
    sent_as: str  # as the provider is asked for it
    price: Price | None
    ask: Callable[[ChatRequest, str, int], ChatReply]  # request, conversation, turn
    retrying: Retrying


def roles_in_use(config: RunConfig) -> tuple[Role, ...]:
    """The roles of a run that ask a model behind a server."""
    team = () if config.meta_model == "rules" else META_ROLES
    policy: tuple[Role, ...] = () if config.trainable else ("policy",)
    judge: tuple[Role, ...] = ("judge",) if config.judge else ()
    return (*team, *judge, *policy)


def unasked(config: RunConfig) -> list[str]:
    """What people should know of models that they chose and nobody will ask."""
    asked = roles_in_use(config)
    return [
        f"nobody asks a model as {role} in this run: --model {role}={model} changes nothing"
        for role, model in config.models.items()
        if role not in asked
    ]


def runs_own_server(config: RunConfig, role: Role, environment: Mapping[str, str]) -> bool:
    """Whether the role's model is on a server whose price only its owner knows."""
    model = config.model_of(role)
    if "/" not in model or ":" in model.partition("/")[0]:
        return True
    # Which key would be sent is of no matter here, and a missing one no error.
    url = resolve_endpoint(model, config.base_urls.get(role), "any", environment).base_url
    return url is not None and urlsplit(url).hostname not in _PROVIDERS_OWN


def prices_of(
    config: RunConfig,
    stated: Mapping[str, Price],
    snapshot: Mapping[str, Price | None],
    environment: Mapping[str, str],
) -> dict[Role, Price | None]:
    """A price for each role in use; those of the snapshot stay as they are."""
    found = {}
    for role in roles_in_use(config):
        own = runs_own_server(config, role, environment)
        now = price_of(config.model_of(role), stated=stated, own_server=own)
        found[role] = snapshot.get(role) or now
    return found


def require_prices(config: RunConfig, prices: Mapping[Role, Price | None]) -> None:
    """Refuses a cap on money where a price is unknown: such a cap could not be kept."""
    for role, price in prices.items():
        if price is None and (config.max_usd is not None or role in config.role_max_usd):
            model = config.model_of(role)
            raise PreflightError(
                f"there is a cap on money, and the price of {model} ({role}) is unknown",
                hint="cap tokens (--max-tokens) instead, or state a price in meta-agent.toml: "
                f'[prices."{model}"] input = 0.0, output = 0.0 (USD per million tokens)',
            )


def require_scripts(config: RunConfig) -> None:
    """Raises ConfigError where a scripted model has no script that can be read."""
    for role in roles_in_use(config):
        if (model := config.model_of(role)).startswith(_SCRIPTED):
            _script(model)


def _script(model: str) -> Script:
    return Script.load(Path(model.removeprefix(_SCRIPTED)).expanduser())


class Lines:
    """The lines of a run, and the providers behind them."""

    def __init__(
        self,
        config: RunConfig,
        prices: Mapping[Role, Price | None],
        *,
        environment: Mapping[str, str],
        servers: Mapping[Role, Server],
        timeouts: Timeouts | None,
        policy: RetryPolicy,
        tell: Callable[[str], None],
    ) -> None:
        self._config = config
        self._tell = tell
        self._environment = environment
        self._servers = servers
        self._timeouts = timeouts
        self._policy = policy
        self._accounts: dict[Endpoint, tuple[Provider, Breaker]] = {}
        self._lines: dict[Role, Line] = {}
        try:
            for role, price in prices.items():
                self._lines[role] = self._line(role, price)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, role: Role) -> Line:
        if role not in self._lines:
            raise ConfigError(
                f"the role {role} has no model to ask: it is {self._config.model_of(role)}",
                hint="meta-agent evolve --meta-model provider/model",
            )
        return self._lines[role]

    @property
    def keys(self) -> list[str]:
        """Every key in use: what must be in no record."""
        return [endpoint.api_key for endpoint in self._accounts if endpoint.api_key]

    def close(self) -> None:
        for provider, _ in self._accounts.values():
            provider.close()

    def _line(self, role: Role, price: Price | None) -> Line:
        model = self._config.model_of(role)
        if model.startswith(_SCRIPTED):
            script = _script(model)
            return Line(model, model, price, script.chat, Retrying(self._policy, Breaker()))
        endpoint = self._endpoint(role)
        # One SDK serves every model of an account, and one breaker watches it.
        account = replace(endpoint, model="")
        if account not in self._accounts:
            self._accounts[account] = (open_endpoint(endpoint, self._timeouts), Breaker())
        provider, breaker = self._accounts[account]
        retrying = Retrying(self._policy, breaker)
        who = f"the {role}'s model {model} at {endpoint.place} ({endpoint.key_words})"
        watch = Watch(who, self._tell)

        def ask(request: ChatRequest, _conversation: str, _turn: int) -> ChatReply:
            with watch.over_a_call():
                return provider.chat(request)

        return Line(model, endpoint.model, price, ask, retrying)

    def _endpoint(self, role: Role) -> Endpoint:
        server = self._servers.get(role)
        if server is None:
            return endpoint_for(role, self._config, self._environment)
        return resolve_endpoint(server.model, server.base_url, server.api_key, self._environment)
