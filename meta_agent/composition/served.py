"""Opens the models that a run calls: starts their vLLM servers, then opens the client.

Servers are started first, because the client needs their addresses. A model that two roles share is
started once. A replay starts no server.

Not covered: what the models are asked (`proposers`, `policies`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from meta_agent.composition.placing import train_settings
from meta_agent.core import registry
from meta_agent.core.config import RunConfig, asks_models
from meta_agent.core.lab.training import Policies
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import ROLES, Role
from meta_agent.core.registry import Registry
from meta_agent.core.workspace import Workspace
from meta_agent.llm_clients.asking.client import Client, Server, open_client, require_scripts
from meta_agent.llm_clients.asking.transcripts import Transcripts
from meta_agent.policies.opening import ChildPolicies, FrozenPolicy
from meta_agent.policies.served.vllm_server import PREFIX, VllmServer, require_vllm
from meta_agent.policies.served_engines import EnginePolicies, Engines

REPLAY: Final = "replay:"
_OWN_PROTOCOL: Final = ("openai", "hosted_vllm", "vllm")

POLICIES: Final = Registry[Callable[[str, RunConfig], Policies]]("policy", registry.POLICIES, {})
"""Factories of other packages' policies, which are not trained here.

Each takes the text after the colon of `--policy`, and the settings. `policies_of` opens the
built-in policies.
"""


def require_servers(config: RunConfig) -> None:
    """Raises PreflightError if a needed vLLM is missing, ConfigError for a bad file of replies."""
    require_scripts(config)
    if _paths(config) or config.engines:
        require_vllm()


@contextmanager
def open_models(
    config: RunConfig,
    ledger: Ledger,
    run_id: str,
    workspace: Workspace,
    *,
    started_at: int,
    tell: Callable[[str], None],
) -> Iterator[Client | None]:
    """Starts a run's model servers and yields the client for its models, or None without models."""
    if not asks_models(config):
        yield None
        return
    with ExitStack() as stack:
        servers = _start(config, workspace, stack, tell)
        client = open_client(
            config,
            ledger,
            run_id,
            Transcripts(workspace.transcripts / run_id),
            started_at=started_at,
            servers=servers,
        )
        stack.callback(client.close)
        yield client


def policies_of(
    config: RunConfig,
    client: Client | None,
    devices: Sequence[str] = (),
    engines: Engines | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Policies:
    """Returns the opener of a run's policies; child processes that it starts share `devices`.

    `tell` gets lines for people, such as what the server of a frozen policy refuses.
    """
    if config.policy_is_plugged:
        name, _, detail = config.policy.partition(":")
        return POLICIES[name](detail, config)
    if engines is not None:
        return EnginePolicies(engines, config.threads, train_settings(config), devices)
    if config.is_local or client is None:
        return ChildPolicies(config.threads, train_settings(config), devices)
    model = client.model_of("policy")
    return FrozenPolicy(
        client,
        model,
        policy=config.policy,
        logprobs=_tells_tokens(config),
        effort=config.limits.reasoning,
        tell=tell,
    )


def _tells_tokens(config: RunConfig) -> bool:
    """Returns True if the policy's server may return token ids, as only self-hosted servers do."""
    provider = config.policy.replace(":", "/").partition("/")[0]
    runs_here = config.policy.startswith(PREFIX) or "policy" in config.base_urls
    return runs_here and provider in _OWN_PROTOCOL


def _start(
    config: RunConfig, workspace: Workspace, stack: ExitStack, tell: Callable[[str], None]
) -> dict[Role, Server]:
    servers: dict[Role, Server] = {}
    for number, (path, roles) in enumerate(sorted(_paths(config).items())):
        log = workspace.root / "logs" / f"vllm-{number}.log"
        tell(f"starting vLLM for {', '.join(roles)} on {path} (log: {log})")
        context = config.limits.max_context_tokens if "policy" in roles else None
        server = VllmServer(path, log=log, context_tokens=context)
        at = stack.enter_context(server).endpoint
        served = Server(f"openai/{at.model}", at.base_url, at.api_key)
        servers.update(dict.fromkeys(roles, served))
    return servers


def _paths(config: RunConfig) -> Mapping[Path, list[Role]]:
    """Returns the model folders that need a server, with the roles that call each."""
    roles_by_path: dict[Path, list[Role]] = {}
    if config.meta_model.startswith(REPLAY):
        return roles_by_path
    for role in ROLES:
        model = config.model_of(role)
        if model.startswith(PREFIX):
            path = Path(model.removeprefix(PREFIX)).expanduser().absolute()
            roles_by_path.setdefault(path, []).append(role)
    return roles_by_path
