"""Loads what a run starts with: its tasks, its workspace, and the workspace's harness."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from meta_agent.composition.bring import NO_ANSWERS, Answers, Choose, create_brought, is_brought
from meta_agent.composition.preflight import backend_of
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.replies import reply_tokens
from meta_agent.core.loop.plan import UNPROVEN
from meta_agent.core.protocols import Domain, HarnessTree
from meta_agent.core.resources import shipped_harness
from meta_agent.core.task_splits import Limited, as_used, lacking, sizes
from meta_agent.core.workspace import Workspace, init_workspace, is_workspace, open_workspace
from meta_agent.domains import DomainOptions, kind_of, load_domain, open_domain
from meta_agent.domains.check import repeated_tasks
from meta_agent.domains.named import named_tasks
from meta_agent.proposers.rules.scaffold import lower_reply_limit

FIRST_COMMIT = "feat: the harness this workspace starts from"


def open_or_create(
    config: RunConfig,
    answers: Answers = NO_ANSWERS,
    *,
    domain: Domain | None = None,
    choose: Choose = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> Workspace:
    """Opens the workspace that the settings name, or creates it, and returns it.

    `answers` describe an agent to import, `choose` picks its start command, and `tell` receives
    notes for the user. A shipped harness for a local policy begins with the limit of tokens per
    reply that references of `domain` call for. Raises ConfigError if the domain is unknown.
    """
    kind_of(config.domain)  # raises before a folder is created

    def create(path: Path) -> HarnessRepo:
        if is_brought(config.harness):
            shipped = _shipped(config)
            training = shipped if config.trainable and config.own_tasks else None
            return create_brought(
                path, config.harness, answers, choose=choose, tell=tell, training=training
            )
        files = _first_files(config)
        if domain is not None and config.is_local:
            files |= _with_reply_limit(files, reply_tokens(domain), tell)
        return HarnessRepo.create(path, files, FIRST_COMMIT)

    return init_workspace(
        config.workspace,
        domain=config.domain,
        harness=config.harness,
        seed=config.seed,
        create_repo=create,
    )


def _with_reply_limit(
    files: dict[str, bytes], tokens: int, tell: Callable[[str], None]
) -> dict[str, bytes]:
    """Returns the files that change where a reply of the harness may be longer than `tokens`."""
    edits = lower_reply_limit(HarnessTree("", "", files), tokens) if tokens else {}
    if edits:
        tell(f"replies end at {tokens} tokens, since references of training tasks need no more")
    return {path: text.encode() for path, text in edits.items()}


def _first_files(config: RunConfig) -> dict[str, bytes]:
    if not config.own_tasks and config.policy == "nano":
        from meta_agent.domains.nano.planted.seeds import seed_files

        variant: Literal["seed", "competent"] = (
            "competent" if config.harness == "competent" else "seed"
        )
        seed = seed_files(config.domain, config.seed, config.profile, variant=variant)
        return dict(seed.files)
    return _shipped(config)


def _shipped(config: RunConfig) -> dict[str, bytes]:
    adapters = config.trainable and config.lora_rank > 0
    return shipped_harness(kind_of(config.domain)[0].harness, adapters=adapters)


def first_harness(config: RunConfig) -> HarnessTree | None:
    """Returns the harness that a run would start with, or None if it is yet to be imported."""
    if is_workspace(config.workspace):
        repo = HarnessRepo.open(open_workspace(config.workspace).harness_repo)
        return repo.tree(repo.head())
    return None if is_brought(config.harness) else HarnessTree("", "", _first_files(config))


def load_run_domain(config: RunConfig, *, sandbox: str | None = None, run: str = "tasks") -> Domain:
    """Returns the tasks and grader that the settings name. Sandboxes are labelled with `run`.

    Raises ConfigError if a split lacks tasks or a task occurs twice.
    """
    domain = _own_tasks(config, sandbox, run) if config.own_tasks else load_domain(config.domain)
    return Limited(domain, config.limits) if config.limits.ceilings else domain


def _own_tasks(config: RunConfig, sandbox: str | None, run: str) -> Domain:
    request = options_of(config, sandbox=sandbox or backend_of(config), run=run)
    task_set = open_domain(request)
    domain = as_used(task_set, trainable=config.trainable)
    pooled = not config.trainable and config.strategy not in UNPROVEN
    if shortage := lacking(sizes(domain), trainable=config.trainable, pooled=pooled):
        raise ConfigError(
            f"{config.tasks or config.domain} has {shortage}",
            hint='add rows, or give them a "split" of train, search, confirm or vault',
        )
    if repeated := repeated_tasks(request, task_set):
        raise ConfigError(
            f"{config.tasks or config.domain}: {repeated}",
            hint="keep one of each; `meta-agent tasks check` lists them all",
        )
    return domain


def with_named_tasks(config: RunConfig, tell: Callable[[str], None] = lambda _: None) -> RunConfig:
    """Writes the task file of the public set that `config.tasks` names; returns settings with it.

    The domain becomes that of the set, unless the settings name one. Settings without the name of
    a public set are returned as they are. `tell` receives lines of progress.
    """
    task_set = named_tasks(str(config.tasks), config.python, tell) if config.tasks else None
    if task_set is None:
        return config
    chosen = config.origin.get("domain", "default") != "default" or config.grade is not None
    origin = {**config.origin, "tasks": f"{config.origin.get('tasks')}: {task_set.source}"}
    update = {"tasks": task_set.path, "origin": origin}
    return config.model_copy(update=update if chosen else {**update, "domain": task_set.domain})


def options_of(config: RunConfig, *, sandbox: str, run: str) -> DomainOptions:
    """Returns the options for opening a domain: task file, grader, limits, sandbox backend."""
    return DomainOptions(
        name=config.domain,
        tasks=config.tasks,
        sandbox=sandbox,
        run=run,
        grade=config.grade,
        threshold=config.threshold,
        mapping=config.map,
        python=config.python,
        judge=config.judge,
        seconds=config.limits.seconds or 0.0,
    )


def base_policy(config: RunConfig) -> str:
    """Returns the untrained policy's name; `nano` becomes `nano:DOMAIN` for all domains but swe."""
    other_suite = config.policy == "nano" and config.domain != "swe"
    return f"nano:{config.domain}" if other_suite else config.policy
