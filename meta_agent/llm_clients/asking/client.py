"""The one client through which a run asks its models: money, retries, the record, and replay.

The steps of an exchange: take the keys out; return the recorded answer if there is one; reserve
the worst case and ask, each attempt of the one retry policy on its own reservation; record, synced;
settle; return. The client returns what it recorded, so a resumed run gets the same reply.

Promises: a recorded exchange is never asked or paid again. A process that dies at any point leaves
either a record or an open reservation. The record settles a reservation that is still open. Without
a record the reservation keeps counting, and the question is asked once more. Caps on run and roles
hold across threads and restarts. With a cap on money, a model without a price is refused at once.

Does not cover: what the messages mean (`proposers`), and how to reach a provider (`_endpoints`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, IntegrityError
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Clock
from meta_agent.core.protocols import JSON, ROLES, Role
from meta_agent.core.workspace import SETTINGS_FILE, read_settings
from meta_agent.llm_clients.asking._asking import LiveModels
from meta_agent.llm_clients.asking._digest import ModelQuestion, parameters, tools_json
from meta_agent.llm_clients.asking._meter import Meter
from meta_agent.llm_clients.asking._replay import PREFIX as REPLAY
from meta_agent.llm_clients.asking._replay import Recording as Recording
from meta_agent.llm_clients.asking._replay import Replay
from meta_agent.llm_clients.asking._replay import recording_of as recording_of
from meta_agent.llm_clients.asking._retry import RetryPolicy
from meta_agent.llm_clients.asking._roles import RoleRoutes, prices_of, require_prices
from meta_agent.llm_clients.asking._roles import Server as Server
from meta_agent.llm_clients.asking._roles import effort_refusal as effort_refusal
from meta_agent.llm_clients.asking._roles import require_scripts as require_scripts
from meta_agent.llm_clients.asking._roles import roles_in_use as roles_in_use
from meta_agent.llm_clients.asking._roles import unasked as unasked
from meta_agent.llm_clients.asking.prices import Price, stated_prices
from meta_agent.llm_clients.asking.transcripts import SCHEMA_VERSION, Transcripts
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.scrubber import Scrubber


@dataclass(eq=False)
class Client:
    """Asks the models of one run, records the replies and pays for them. Any thread may use it."""

    source: LiveModels | Replay
    transcripts: Transcripts
    scrubber: Scrubber
    model_of: Callable[[Role], str]
    """The model string of a role, as it is recorded: in a replay, the recorded run's."""
    # A conversation's exchanges come one at a time. `setdefault` of this dictionary is atomic.
    _locks: dict[str, threading.Lock] = field(default_factory=dict, init=False)

    def chat(self, request: ChatRequest, *, conversation: str, turn: int) -> ChatReply:
        """Returns the reply of the role's model: the recorded one if there is one, else a new one.

        `turn` is the request's number in the conversation. Raises ProviderError if no reply comes,
        BudgetError if a cap leaves too little, and IntegrityError if a replay has no such reply.
        """
        request = replace(request, model=self.model_of(request.role))
        clean = self.scrubber.json
        messages = [clean(dict(message)) for message in request.messages]
        question = ModelQuestion(parameters(request), messages, clean(tools_json(request.tools)))
        with self._locks.setdefault(conversation, threading.Lock()):
            recorded = self.transcripts.recorded(conversation, turn)
            if recorded is not None and recorded.question.digest == question.digest:
                self.source.reuse(recorded)
                return replace(recorded.reply, replayed=True)
            return self.source.answer(request, question, conversation, turn)

    @property
    def replaying(self) -> bool:
        """Returns True if all replies come from a recorded run, so that no model is asked."""
        return isinstance(self.source, Replay)

    @property
    def drifted(self) -> int:
        """Returns how many replies were replayed although the recorded request is not the same."""
        return self.source.drifted if isinstance(self.source, Replay) else 0

    def close(self) -> None:
        """Closes the connections to providers. Calls in progress in other threads fail."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_client(
    config: RunConfig,
    ledger: Ledger,
    run_id: str,
    transcripts: Transcripts,
    *,
    environment: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
    started_at: int | None = None,
    servers: Mapping[Role, Server] | None = None,
    labels: Mapping[str, str] | None = None,
    timeouts: RequestTimeouts | None = None,
    retry: RetryPolicy | None = None,
) -> Client:
    """Opens the client of a run: it replays if `meta_model` is `replay:RUN`, else it asks models.

    Args:
        config: the run's settings; for a replay, the recorded ones in place of defaults.
        ledger: where money is reserved and settled; the caps of `config` are set there.
        run_id: the run that pays.
        transcripts: the record of this run's conversations.
        environment: variables that may hold keys; None: those of this process.
        clock: returns the Unix time in seconds.
        started_at: Unix time of the run's start; None: the time that the ledger records.
        servers: servers that the run started itself, by role (`vllm:PATH`).
        labels: facts about the record for people, e.g. `{"model": "...", "relayed": "..."}`.
        timeouts: the time limits of one request.
        retry: the limits of the retry policy.

    Raises:
        ConfigError, PreflightError: a setting, key or price is wrong or missing.
        IntegrityError: `transcripts` are those of another run, or damaged.
    """
    environment = os.environ if environment is None else environment
    own_keys = [server.api_key for server in (servers or {}).values()]
    scrubber = Scrubber.of(config.key_env.values(), environment, own_keys)
    if config.meta_model.startswith(REPLAY):
        recording = recording_of(config.meta_model, config.workspace)
        return _replaying(config, recording, run_id, transcripts, scrubber)
    manifest = transcripts.manifest() or {}
    prices = prices_of(config, _stated(config), _snapshot(manifest), environment)
    require_prices(config, prices)
    with ExitStack() as opened:
        routes = RoleRoutes(
            config,
            prices,
            environment=environment,
            servers=servers or {},
            timeouts=timeouts,
            policy=retry or RetryPolicy(),
            scrubber=scrubber,
        )
        opened.callback(routes.close)
        ledger.set_cap(run_id, max_usd=config.max_usd, max_tokens=config.max_tokens)
        for role in ROLES:
            usd, tokens = config.role_max_usd.get(role), config.role_max_tokens.get(role)
            ledger.set_cap(run_id, role=role, max_usd=usd, max_tokens=tokens)
        if prices:
            if started_at is None:
                started_at = _started_at(ledger, run_id, manifest, clock)
            latest: dict[str, JSON] = {
                "run_id": run_id,
                "clock": started_at,
                "settings": config.hashed,
                "models": {role: config.model_of(role) for role in prices},
                "prices": {role: price and price.to_json() for role, price in prices.items()},
                "labels": {**manifest.get("labels", {}), **(labels or {})},
            }
            _write_manifest(transcripts, latest)
        live = LiveModels(routes, Meter(ledger, run_id), transcripts, scrubber, clock)
        opened.pop_all()
    return Client(live, transcripts, scrubber, lambda role: routes[role].model)


def prices_in_use(
    config: RunConfig, environment: Mapping[str, str] | None = None
) -> dict[Role, Price | None]:
    """Returns the price of each role's model, or None if it is unknown; empty for a replay."""
    if config.meta_model.startswith(REPLAY):
        return {}
    environment = os.environ if environment is None else environment
    return prices_of(config, _stated(config), {}, environment)


def _replaying(
    config: RunConfig,
    recording: Recording,
    run_id: str,
    transcripts: Transcripts,
    scrubber: Scrubber,
) -> Client:
    if run_id != recording.run_id:
        raise ConfigError(
            f"this run is named {run_id}, but the replayed run {recording.run_id}, and its "
            "commits contain that name",
            hint=f"start the replay under the run id {recording.run_id}",
        )
    if transcripts.root != recording.transcripts.root:
        _write_manifest(transcripts, recording.transcripts.manifest() or {})
    replay = Replay(recording, transcripts, exact=config.replay_match == "exact")
    return Client(replay, transcripts, scrubber, recording.model_of)


def _stated(config: RunConfig) -> dict[str, Price]:
    path = config.workspace / SETTINGS_FILE
    table = read_settings(path).get("prices", {}) if path.is_file() else {}
    return stated_prices(table, str(path))


# --- the manifest: enough to replay a run, and to charge the same prices when it resumes ---------
# It holds no key, no address of a server and no path of the workspace.


def _snapshot(manifest: Mapping[str, Any]) -> dict[str, Price | None]:
    """Returns the price of each role's model at the run's start; None if it was unknown then."""
    prices = manifest.get("prices", {})
    return {role: Price.from_json(price) if price else None for role, price in prices.items()}


def _started_at(
    ledger: Ledger, run_id: str, manifest: Mapping[str, JSON], clock: Callable[[], float]
) -> int:
    """Returns when a run began, from its ledger or its manifest; `clock()` if neither has it."""
    step = ledger.step(f"{run_id}/clock")
    if step is not None and step.is_done:
        return step.outcome_as(Clock)["at"]
    return int(manifest.get("clock", clock()))


def _write_manifest(transcripts: Transcripts, manifest: Mapping[str, JSON]) -> None:
    """Writes a run's manifest if it has changed. Raises IntegrityError over that of another run."""
    earlier = transcripts.manifest()
    if earlier is not None and earlier["run_id"] != manifest["run_id"]:
        raise IntegrityError(
            f"{transcripts.root} records the run {earlier['run_id']}, not {manifest['run_id']}",
            hint="give another workspace: --workspace DIR",
        )
    manifest = {**manifest, "schema_version": SCHEMA_VERSION}
    if earlier != manifest:
        transcripts.write_manifest(manifest)
