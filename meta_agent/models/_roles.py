"""Which model, server, key and price each role has, resolved once when a run opens.

A server of one's own gets the key of the variable that `key_env` names and no other; the usual
variables of a provider are for that provider's own servers. Providers and breakers are shared by
the roles that have the same account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from meta_agent.config import RunConfig
from meta_agent.errors import ConfigError, PreflightError
from meta_agent.models._retry import Breaker, Retrying, RetryPolicy
from meta_agent.models._scripted import Script
from meta_agent.models.chat import ChatReply, ChatRequest, Provider
from meta_agent.models.prices import Price, price_of
from meta_agent.protocols import Role

META_ROLES: Final[tuple[Role, ...]] = ("analyst", "proposer", "reviewer", "librarian")
_SCRIPTED: Final = "scripted:"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that we started ourselves, in the place of what the settings say."""

    model: str  # `openai/NAME`, as it is served
    base_url: str
    api_key: str | None = None


class OpenProvider(Protocol):
    """Opens one SDK on one account (`_endpoints.open_provider`)."""

    def __call__(self, model: str, *, base_url: str | None, api_key: str | None) -> Provider: ...


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
    judge: tuple[Role, ...] = ("judge",) if "judge" in config.models else ()
    policy: tuple[Role, ...] = () if config.trainable else ("policy",)
    return (*team, *judge, *policy)


def runs_own_server(config: RunConfig, role: Role) -> bool:
    """Whether the role's model is on a server whose price only its owner knows."""
    return role in config.base_urls or config.model_of(role).startswith("vllm:")


def prices_of(
    config: RunConfig, stated: Mapping[str, Price], snapshot: Mapping[str, Price | None]
) -> dict[Role, Price | None]:
    """A price for each role in use; those of the snapshot stay as they are."""
    found = {}
    for role in roles_in_use(config):
        now = price_of(
            config.model_of(role), stated=stated, own_server=runs_own_server(config, role)
        )
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


class Lines:
    """The lines of a run, and the providers behind them."""

    def __init__(
        self,
        config: RunConfig,
        prices: Mapping[Role, Price | None],
        *,
        environment: Mapping[str, str],
        servers: Mapping[Role, Server],
        open_provider: OpenProvider,
        policy: RetryPolicy,
    ) -> None:
        self._config = config
        self._environment = environment
        self._servers = servers
        self._open_provider = open_provider
        self._policy = policy
        self._providers: dict[tuple[str, str | None, str | None], Provider] = {}
        self._breakers: dict[tuple[str, str | None, str | None], Breaker] = {}
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

    def close(self) -> None:
        """Closes every provider."""
        for provider in self._providers.values():
            provider.close()

    def _line(self, role: Role, price: Price | None) -> Line:
        model = self._config.model_of(role)
        if model.startswith(_SCRIPTED):
            script = Script.load(Path(model.removeprefix(_SCRIPTED)).expanduser())
            return Line(model, model, price, script.chat, Retrying(self._policy, Breaker()))
        server = self._servers.get(role)
        sent_as = server.model if server else model
        base_url = server.base_url if server else self._config.base_urls.get(role)
        key = server.api_key if server else self._key(role)
        provider = self._provider(sent_as, base_url, key)
        account = (sent_as.partition("/")[0], base_url, key)
        breaker = self._breakers.setdefault(account, Breaker())
        retrying = Retrying(self._policy, breaker)
        return Line(model, sent_as, price, lambda request, _c, _t: provider.chat(request), retrying)

    def _provider(self, model: str, base_url: str | None, key: str | None) -> Provider:
        account = (model, base_url, key)
        if account not in self._providers:
            self._providers[account] = self._open_provider(model, base_url=base_url, api_key=key)
        return self._providers[account]

    def _key(self, role: Role) -> str | None:
        name = self._config.key_env.get(role)
        if name is None:
            return None
        if not self._environment.get(name):
            raise PreflightError(
                f"the key of the {role}'s server is to be in {name}, which is not set",
                hint=f"export {name}=...",
            )
        return self._environment[name]
