"""The composition root: looks up a run's extensions and passes them to the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from meta_agent import proposers, reports
from meta_agent.core import registry
from meta_agent.core.chat import ChatReply, ChatRequest, ModelClient
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.extensions import Extensions
from meta_agent.core.proposals import RULES, Proposer
from meta_agent.core.protocols import Sandbox, SandboxLimits, SandboxOpener
from meta_agent.core.registry import Registry
from meta_agent.core.workspace import AGENTS
from meta_agent.llm_clients.asking.client import Client
from meta_agent.readers import evidence
from meta_agent.sandboxes import BASE_IMAGE, open_sandbox

PROPOSERS: Final = Registry[Callable[[str, RunConfig], Proposer]](
    "proposer", registry.PROPOSERS, {}
)
"""Factories of other packages' proposers, which write a run's ideas.

Each takes the text after the colon of `--meta-model`, and the settings. `proposer_of` opens the
built-in proposers: rules, coding agents, and the team of language models.
"""


def sandboxes_of(
    backend: str, run: str, images: Mapping[str, str] = MappingProxyType({})
) -> SandboxOpener:
    """Returns a function that opens a run's sandboxes; `images` maps image names to ids to use."""

    def opened(*, limits: SandboxLimits, image: str | None = None) -> Sandbox:
        pinned = images.get(image or BASE_IMAGE, image)
        return open_sandbox(backend, run=run, limits=limits, image=pinned)

    return opened


def extensions_of(
    config: RunConfig, run: str, models: ModelClient | None, ledger: Ledger | None = None
) -> Extensions:
    """Returns a run's proposer, evidence reader and note writer, as its settings name them.

    `ledger` records what a coding agent says that it spent.
    """
    return Extensions(proposer_of(config, run, models, ledger), evidence, proposers, reports)


def proposer_of(
    config: RunConfig, run: str, models: ModelClient | None, ledger: Ledger | None = None
) -> Proposer:
    """Returns the proposer that the settings name: rules, a coding agent, models, or a plug-in."""
    if config.meta_model == RULES:
        return proposers.RulesAgent()
    if config.agent_is_asked:
        return proposers.CodingAgent(
            proposers.agent_cli(config.meta_model),
            run=run,
            records=config.workspace / AGENTS / run,
            ledger=ledger,
            prompts=config.workspace / "prompts",
            key_variable=config.key_env.get("proposer"),
        )
    if not config.team_is_asked:
        name, _, detail = config.meta_model.partition(":")
        return PROPOSERS[name](detail, config)
    recorded = models if isinstance(models, Client) else config
    return proposers.LlmTeam(
        models or _NoModels(config.meta_model),
        run=run,
        model_of=config.model_of,
        author=recorded.model_of("proposer"),
        prompts=config.workspace / "prompts",
    )


class _NoModels:
    """Stands in for the models of a run that is only read, and raises ConfigError if called."""

    def __init__(self, meta_model: str) -> None:
        self._meta_model = meta_model

    def chat(self, request: ChatRequest, *, conversation: str, turn: int) -> ChatReply:
        raise ConfigError(
            f"--meta-model {self._meta_model} cannot be asked: this run was opened to be read only",
            hint="continue an unfinished run: meta-agent evolve; with a finished run, this is a "
            "bug of meta-agent: please report it",
        )
