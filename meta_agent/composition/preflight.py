"""Refuses a run before any work if settings contradict each other or packages are missing."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Final

from meta_agent.composition.bring import is_brought
from meta_agent.composition.served import require_servers
from meta_agent.core.config import GRADED, RunConfig
from meta_agent.core.distribution import RUN_NEEDS, require_installed
from meta_agent.core.errors import ConfigError, MetaAgentError
from meta_agent.core.harness import CONTRACT_FILE, parse_contract
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.plan import STAGED
from meta_agent.core.protocols import Ceilings, Domain, HarnessTree
from meta_agent.core.workspace import BUILT_IN_HARNESSES, is_workspace, open_workspace
from meta_agent.domains import kind_of
from meta_agent.llm_clients.asking import prices
from meta_agent.llm_clients.asking.client import effort_refusal
from meta_agent.policies.engines.nano_tokenizer import NANO_WINDOW
from meta_agent.policies.served.vllm_server import config_of, window_of
from meta_agent.policies.training.hub import hf_place
from meta_agent.policies.training.memory import shape_of
from meta_agent.proposers import agent_cli, require_agent
from meta_agent.sandboxes import resolve_backend
from meta_agent.strategies.strategies import STRATEGIES
from meta_agent.trackers import require_trackers

_JUDGE: Final = re.compile(rb"^def judge\(", re.MULTILINE)


def preflight(config: RunConfig) -> None:
    """Raises ConfigError or PreflightError if this machine cannot run the given settings."""
    _require_installed(config)
    if config.agent_is_asked:
        cli = agent_cli(config.meta_model)
        require_agent(cli, config.key_env.get("proposer"), os.environ)


def _require_installed(config: RunConfig) -> None:
    """Raises an error if something is missing, as far as that shows without starting a program."""
    require_installed(RUN_NEEDS, "run")
    require_supported(config)
    if config.is_local:
        require_training()
    if config.policy.startswith("hf:"):
        hf_place(config.policy.removeprefix("hf:"))
    require_servers(config)
    require_trackers(config.trackers)


def refusal(config: RunConfig, *, contacts: bool) -> MetaAgentError | None:
    """Returns the error with which `evolve` would refuse to start on this machine, or None.

    Without `contacts`, it asks no container engine and no coding agent.
    """
    try:
        _require_installed(config)
        if contacts:
            preflight(config)
        if contacts or config.sandbox == "process":
            backend_of(config)
    except MetaAgentError as error:
        return error
    return None


def require_supported(config: RunConfig) -> None:
    """Raises ConfigError for an unknown domain or strategy, or settings that exclude each other."""
    kind_of(config.domain)
    STRATEGIES[config.strategy]
    if config.policy != "nano" and not config.own_tasks:
        raise ConfigError(
            f"--policy {config.policy} needs tasks: the built-in suites are made for the nano "
            "policy (a few tokens a turn, a context of a hundred)",
            hint="give --tasks FILE (meta-agent tasks check FILE explains the format)",
        )
    if config.agent_is_asked:
        _require_own_caps(config)
    if config.executor != "local" and not config.trainable:
        raise ConfigError(
            f"--executor {config.executor} is for a policy that is trained here, but "
            f"{config.policy} is called from this machine, which holds its keys",
            hint="leave --executor out, or give --policy nano or hf:PATH",
        )
    if config.executor != "local" and config.reward_judge:
        raise ConfigError(
            f"--model reward={config.reward_judge} works only with trainings on this machine, "
            f"which holds the keys, but --executor {config.executor} trains elsewhere",
            hint="leave --executor or --model reward=... out",
        )
    if config.policy == "nano" and not config.train_steps:
        raise ConfigError(
            "--train-steps is 0, but the nano policy solves nothing before it is trained",
            hint="give --train-steps 1 or more, or --policy hf:PATH, which can stay frozen",
        )
    if config.own_tasks and config.policy == "nano":
        raise ConfigError(
            "the nano policy attempts only the built-in task suites, and these are other tasks",
            hint="give another policy: --policy PROVIDER/MODEL, vllm:PATH or hf:PATH",
        )
    if config.strategy == STAGED and config.prove == "harness":
        raise ConfigError(
            "--prove harness takes several trainings from the base; --strategy staged makes one",
            hint="give --strategy full, or leave --prove out",
        )
    if is_brought(config.harness) and not config.own_tasks and not _says_how(config):
        raise needs_tasks(config)


def _require_own_caps(config: RunConfig) -> None:
    """Raises ConfigError for a cap that cannot hold, because a coding agent's own login pays."""
    agent_cli(config.meta_model)
    for name, cap, by_role in (
        ("--max-usd", config.max_usd, config.role_max_usd),
        ("--max-tokens", config.max_tokens, config.role_max_tokens),
    ):
        if cap is not None or by_role.keys() - {"policy", "judge", "reward"}:
            raise ConfigError(
                f"{name} cannot cap {config.meta_model}: the coding agent's own login pays for "
                "it, and nobody knows beforehand what a session costs",
                hint=f"cap the policy's own calls: {name} policy=N"
                if not config.trainable
                else f"leave {name} out",
            )


def require_limits(config: RunConfig, domain: Domain) -> None:
    """Raises ConfigError if a token limit or reasoning effort does not suit the policy."""
    ceilings, window = domain.ceilings, None
    if config.limits.max_context_tokens:
        window = _window(config)
    if window is not None and ceilings.max_context_tokens > window:
        raise ConfigError(
            f"the limit max_context_tokens is {ceilings.max_context_tokens:,}, but "
            f"{config.policy} reads at most {window:,} tokens",
            hint=f"use --limits max_context_tokens={window}",
        )
    if config.limits.ceilings and ceilings.max_tokens_per_turn >= ceilings.max_context_tokens:
        raise ConfigError(
            f"a reply may have {ceilings.max_tokens_per_turn:,} tokens, and that leaves no room "
            f"for its prompt in a conversation of {ceilings.max_context_tokens:,}",
            hint="with --limits, lower max_tokens_per_turn or raise max_context_tokens",
        )
    if config.limits.reasoning and (refusal := _effort_refusal(config, ceilings)):
        raise ConfigError(
            f"reasoning={config.limits.reasoning} is not for --policy {config.policy}: {refusal}",
            hint="leave reasoning out of --limits",
        )


def require_needs(config: RunConfig, tree: HarnessTree | None, domain: Domain) -> None:
    """Raises ConfigError if a limit is below what the harness declares that it needs."""
    if tree is None:  # it has yet to be imported
        return
    contract, limits = parse_contract(tree), asdict(domain.ceilings)
    rewards = (tree.files[path] for path in contract.files_of("reward", tree))
    if config.trainable and not config.reward_judge and any(map(_JUDGE.search, rewards)):
        raise ConfigError(
            f"the reward function of the harness {contract.name} asks a model, but none is set",
            hint="use --model reward=provider/model",
        )
    limits["seconds"] = limits["wall_sec"]
    for name, least in contract.needs.items():
        if limits[name] < least:
            raise ConfigError(
                f"the limit {name} is {limits[name]:,}, and the harness {contract.name} needs at "
                f"least {least:,}",
                hint=f"use --limits {name}={least}",
            )


def _window(config: RunConfig) -> int | None:
    """Returns how many tokens the policy reads on this machine, or None if nobody knows."""
    kind, _, place = config.policy.partition(":")
    if config.policy == "nano":
        return NANO_WINDOW
    if kind == "hf":
        window = shape_of(hf_place(place)).window
        return min(window, (config.engines and config.context_tokens) or window)
    if kind == "vllm":
        return window_of(config_of(Path(place).expanduser()))
    return None if "policy" in config.base_urls else prices.window_of(config.policy)


def _effort_refusal(config: RunConfig, ceilings: Ceilings) -> str:
    if config.is_local or config.policy_is_plugged or config.policy.startswith("vllm:"):
        return "it is for models behind a server of OpenAI's or Anthropic's protocol"
    return effort_refusal(config, ceilings.max_tokens_per_turn)


def require_training() -> None:
    """Raises PreflightError if a package that training needs is missing."""
    require_installed(("torch", "transformers", "trl"), "train")


def _says_how(config: RunConfig) -> bool:
    """Returns True if an imported harness has a `harness.toml` or is in the workspace already."""
    folder = Path(config.harness)
    return is_workspace(config.workspace) or (folder / CONTRACT_FILE).is_file()


def needs_tasks(config: RunConfig) -> ConfigError:
    """Returns the error to raise if an imported harness comes without tasks that fit it."""
    return ConfigError(
        f"--harness {config.harness} needs tasks: the built-in nano suites work only with a "
        f"harness that has an entry in its {CONTRACT_FILE}",
        hint="give tasks and a policy: meta-agent evolve --tasks FILE --policy provider/model",
    )


def backend_of(config: RunConfig) -> str:
    """Returns the name of the sandbox backend, such as docker, in which a run's code is executed.

    Code counts as untrusted if a model edits the harness, edited it in an earlier run of the
    workspace, or may have its own code run at a task. The harness that comes with `--grade` runs no
    code of a model: it talks, and calls the tools that the grader's file defines.
    Raises PreflightError if untrusted code cannot run safely on this machine.
    """
    only_talks = config.domain == GRADED and config.harness in BUILT_IN_HARNESSES
    by_llm = config.meta_model != "rules" or (config.own_tasks and not only_talks)
    return resolve_backend(
        config.sandbox,
        code_by_llm=by_llm or _edited_by_models(config.workspace),
        allow_unsafe=config.allow_unsafe_process,
    )


def _edited_by_models(workspace: Path) -> bool:
    """Returns True if a model proposed edits in a run of this workspace."""
    if not is_workspace(workspace):
        return False
    file = open_workspace(workspace).ledger_file
    if not file.is_file():
        return False
    with Ledger.open(file, owner_lock=False) as ledger:
        authors = {(row.config or {}).get("meta_model", "rules") for row in ledger.runs()}
    return bool(authors - {"rules"})
