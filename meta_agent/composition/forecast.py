"""`evolve --dry-run`: predicts what would run, what it may cost, and what it could prove.

It contacts nobody, and starts and writes nothing. It raises the same errors as `evolve`, as far as
they follow from the settings and the workspace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from meta_agent.composition.inputs import first_harness, load_run_domain
from meta_agent.composition.opening import name_of
from meta_agent.composition.placing import Placing, placing
from meta_agent.composition.preflight import (
    refusal,
    require_limits,
    require_needs,
    require_supported,
)
from meta_agent.composition.served import REPLAY
from meta_agent.composition.visible import tasks_to_detect, visible
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import Recipe, recipe_of
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.budget import plan_attempts
from meta_agent.core.loop.plan import ALPHA, Plan, plan_for
from meta_agent.core.loop.spending import alpha_of
from meta_agent.core.protocols import JSON, Domain, HarnessTree, Role
from meta_agent.core.workspace import SETTINGS_FILE, open_workspace, require_fitting
from meta_agent.llm_clients.asking.client import prices_in_use, recording_of
from meta_agent.llm_clients.asking.estimate import (
    ASSUMED,
    TOO_COARSE,
    CostForecast,
    Detectable,
    Habits,
    Range,
    estimate,
    too_coarse,
)
from meta_agent.llm_clients.asking.measured import Taken, conversations_of
from meta_agent.llm_clients.asking.prices import Price
from meta_agent.policies.training.devices import Device

_READ_TASKS: Final = 64
_CHARS_A_TOKEN: Final = 4
_FEWEST_PROMPT: Final = 100
_MOST_PROMPT: Final = 800
"""Tokens that a harness adds to a task's text: instructions alone, or with worked examples."""


class Work(NamedTuple):
    """Upper bounds of a run: its attempts outside the vault split, and their tokens.

    They predict no duration: most conversations stay far below the largest length allowed.
    """

    attempts: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do: its settings, the sizes that they imply, and its estimated cost."""

    config: RunConfig
    plan: Plan
    estimate: CostForecast
    placing: Placing
    work: Work | None
    """The attempts and tokens of an `hf:` policy; None for any other policy."""
    step_attempts: tuple[int, int] | None = None
    """The fewest and the most attempts of a training step; None if nothing is trained."""

    def to_json(self) -> dict[str, JSON]:
        memory = self.placing.memory
        return {
            "schema_version": 1,
            "config": self.config.to_json(),
            "plan": self.plan.to_json(),
            "estimate": _finite(self.estimate.to_json()),
            "workers": self.placing.workers,
            "work": None if self.work is None else self.work._asdict(),
            "step_attempts": self.step_attempts and list(self.step_attempts),
            "memory": memory._asdict() | {"total": memory.total} if memory else None,
        }


def forecast(config: RunConfig, planned: list[Device] | None = None) -> Forecast:
    """Returns the forecast of a run; for `--meta-model replay:RUN`, with the settings of RUN.

    `planned` holds the GPUs of another machine on which the run shall start. Raises the errors
    that `evolve` would raise, and ConfigError if the run would not use such GPUs.
    """
    if planned and (not config.policy.startswith("hf:") or config.executor != "local"):
        raise ConfigError(
            "--for plans an hf: policy on one machine, and this run has "
            f"--policy {config.policy} and --executor {config.executor}",
            hint="leave --for out, or give --policy hf:PATH",
        )
    if config.meta_model.startswith(REPLAY):
        config = recording_of(config.meta_model, config.workspace).effective(config)
    require_supported(config)
    require_fitting(config.workspace, domain=config.domain, harness=config.harness)
    domain = _domain_of(config)
    require_limits(config, domain)
    tree = first_harness(config)
    require_needs(config, tree, domain)
    plan = replace(plan_for(config, domain), alpha=_alpha_left(config))
    effect = visible(config, plan)
    enough = tasks_to_detect(plan, TOO_COARSE) if too_coarse(effect.effect) else None
    least = Detectable(effect.effect, effect.words, enough)
    prices = prices_in_use(config)
    recorded = _recorded_amounts(config, prices)
    spending = estimate(config, plan, prices, least, recorded, habits_of(domain))
    if not planned and (refused := refusal(config, contacts=False)):
        words = f"this machine would refuse to start it: {refused}"
        spending = replace(spending, warnings=(*spending.warnings, words))
    tree = tree if plan.trains else None
    work = _work(config, plan, domain, tree)
    step = None if tree is None else _step_attempts(recipe_of(tree))
    return Forecast(config, plan, spending, placing(config, domain, planned), work, step)


def _step_attempts(recipe: Recipe) -> tuple[int, int]:
    return recipe.rows_per_step, recipe.most_rows_per_step


def _work(config: RunConfig, plan: Plan, domain: Domain, tree: HarnessTree | None) -> Work | None:
    if tree is None or not config.policy.startswith("hf:"):
        return None
    attempts = config.budget or plan_attempts(plan, tree)
    return Work(attempts, attempts * domain.ceilings.max_context_tokens)


def habits_of(domain: Domain) -> Mapping[Role, Habits]:
    """Returns what attempts are like at tasks that offer no tool but to hand an answer in.

    Their length follows from the tasks' own text. Of other tasks nothing is known: {}.
    """
    views = [task.view for task in domain.tasks("search")[:_READ_TASKS]]
    if not views or any(set(_listed(view.get("tools"))) - {"submit"} for view in views):
        return {}
    texts = [len(str(view.get("prompt") or view)) / _CHARS_A_TOKEN for view in views]
    tokens = sum(texts) / len(texts)
    usual = ASSUMED["policy"]
    most = min(usual.output_tokens.high, domain.ceilings.max_tokens_per_turn)
    written = Range(min(usual.output_tokens.low, most), most)
    asked_tokens = Range(tokens + _FEWEST_PROMPT, 3 * tokens + _MOST_PROMPT)
    return {"policy": Habits(Range(1, 2), asked_tokens, written)}


def _listed(value: JSON) -> Sequence[str]:
    return value if isinstance(value, list | tuple) else ()


def _recorded_amounts(
    config: RunConfig, prices: Mapping[Role, Price | None]
) -> Mapping[Role, Sequence[Taken]]:
    """Returns what the workspace's recorded conversations took. Creates no workspace."""
    if not (config.workspace / SETTINGS_FILE).is_file():
        return {}
    folder = open_workspace(config.workspace).transcripts
    return conversations_of(folder, config.model_of, prices)


def _alpha_left(config: RunConfig) -> float:
    """Returns the alpha (allowed error) that earlier claims left. Creates no workspace."""
    if not (config.workspace / SETTINGS_FILE).is_file():
        return ALPHA
    file = open_workspace(config.workspace).ledger_file
    if not file.is_file():
        return ALPHA
    with Ledger.open(file, owner_lock=False) as ledger:
        return alpha_of(ledger, name_of(config))


def _finite(value: JSON) -> JSON:
    """Returns JSON with None for infinite numbers, which JSON lacks and a price may have."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value


def _domain_of(config: RunConfig) -> Domain:
    """Loads the domain. The backend is named, so that no container engine is contacted."""
    return load_run_domain(config, sandbox="process")
