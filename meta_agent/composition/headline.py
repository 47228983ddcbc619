"""The lines that a run prints before it starts: what it measures and what it cannot prove."""

from __future__ import annotations

from typing import Final

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.config import RunConfig
from meta_agent.core.loop.plan import Plan
from meta_agent.core.protocols import Domain
from meta_agent.core.workspace import Workspace
from meta_agent.llm_clients.keys import keys_found

_DOING: Final = {"": "evolving", "train": "training"}


def headline(
    config: RunConfig,
    plan: Plan,
    workspace: Workspace,
    backend: str,
    resumed: bool,
    purpose: str = "",
) -> list[str]:
    """Returns the lines that a run prints at its start: its command, tasks, policy and sizes.

    `purpose` is empty for `evolve`, or else the command: "train", which does not search.
    """
    tasks = f"tasks {config.tasks}" if config.tasks else f"built-in nano-{config.domain} suite"
    tasks = tasks if config.tasks or not config.own_tasks else "its own tasks"
    keys = ", ".join(keys_found()) or "none"
    unused = "" if keys == "none" or _asks(config) else " (not used by the rules agent)"
    doing = "resuming" if resumed else _DOING.get(purpose, purpose)
    policy = f"policy {config.policy}, {plan.acting}"
    search = "" if config.strategy == "full" else f"search {config.strategy}: "
    cap = f", at most {config.budget:,} attempts" if config.budget else ""
    sizes = f"{config.generations} generations x {config.candidates} candidates, {_sizes(plan)}"
    loop = [f"{policy}; meta-agent {config.meta_model}; sandbox {backend}", search + sizes + cap]
    held = [] if plan.train is None else [plan.split]
    return [
        f"{doing} {config.domain} ({tasks}) in {workspace.root}",
        *held,
        *([f"{policy}; sandbox {backend}"] if purpose else loop),
        f"provider keys found: {keys}{unused}",
    ]


def cautions(plan: Plan, domain: Domain) -> list[str]:
    """Returns warnings about what the measurements of a plan cannot show."""
    lines = list(Capabilities.of(domain).notes)
    if plan.halved:
        lines.append(
            f"small task set, all of it is used: {plan.split}; the former include the train tasks"
        )
    if plan.race:
        lines.append("edits that look better and are unproven are collected on the branch lead")
    if not plan.provable:
        lines.append(
            f"{plan.confirm} confirm tasks cannot prove any effect at alpha "
            f"{plan.alpha:.3g}: the best p-value they allow is "
            f"{0.5**plan.confirm:.2g}. Give more tasks the split confirm"
        )
    return lines


def _asks(config: RunConfig) -> bool:
    return config.meta_model != "rules" or not config.is_local


def _sizes(plan: Plan) -> str:
    return f"{plan.training}{plan.terms} for a claim on {plan.confirm} confirm tasks"
