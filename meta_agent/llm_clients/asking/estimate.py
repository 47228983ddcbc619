"""What a run will probably cost, and the smallest gain that it could prove, before it starts.

Conversations follow from the plan. How long a conversation is, is assumed until the workspace holds
a few; from then on it is measured (`measured.py`). Both are likely ranges, no bounds. Of an
assumption the low end takes most of the input from the provider's cache, the high end none of it.

Does not cover: what a model will really write. This is a forecast; `--max-usd` is the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from meta_agent.core.chat import Usage
from meta_agent.core.config import RunConfig
from meta_agent.core.harness.recipe import Recipe
from meta_agent.core.protocols import JSON, Role
from meta_agent.llm_clients.asking._replay import PREFIX as REPLAY
from meta_agent.llm_clients.asking._roles import unasked
from meta_agent.llm_clients.asking.measured import Taken, interval
from meta_agent.llm_clients.asking.prices import Price

if TYPE_CHECKING:
    from meta_agent.core.loop.plan import Plan

TOO_COARSE: Final = 0.20
"""The forecast warns above this effect: few single changes to an agent gain as much."""
_CACHED_AT_BEST: Final = 0.8


@dataclass(frozen=True, slots=True)
class Range:
    """A low and a high estimate of one number."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def times(self, other: Range) -> Range:
        """Returns the likely range of a product of two independent positive numbers.

        Both are taken as log-normal, so their spreads add as squares: it is not likely that each
        is at its end at once. A range from 0 is multiplied end by end.
        """
        if min(self.low, other.low) <= 0:
            return Range(self.low * other.low, self.high * other.high)
        middle = math.sqrt(self.low * self.high * other.low * other.high)
        spreads = (math.log(each.high / each.low) / 2 for each in (self, other))
        spread = math.exp(math.hypot(*spreads))
        return Range(middle / spread, middle * spread)

    def below(self, most: float | None) -> Range:
        """Returns the range with neither end above `most`; None limits nothing."""
        return self if most is None else Range(min(self.low, most), min(self.high, most))


class Detectable(NamedTuple):
    """The smallest true gain in clean success that a run proves with a probability of 80 %.

    `effect` is a share of 1, or None if no gain is proven so often. `basis` states assumptions.
    """

    effect: float | None
    basis: str
    enough: int | None = None
    """How many confirm tasks would be enough, if the effect is too coarse."""


class Habits(NamedTuple):
    """The assumed number of calls in one conversation of a role, and of tokens in one call."""

    exchanges: Range
    input_tokens: Range
    output_tokens: Range


ASSUMED: Final[Mapping[Role, Habits]] = {
    "analyst": Habits(Range(8, 30), Range(6e3, 20e3), Range(200, 800)),
    "proposer": Habits(Range(10, 40), Range(6e3, 20e3), Range(200, 800)),
    "reviewer": Habits(Range(1, 6), Range(4e3, 12e3), Range(200, 800)),
    "librarian": Habits(Range(1, 4), Range(3e3, 10e3), Range(200, 800)),
    "judge": Habits(Range(1, 1), Range(500, 8e3), Range(50, 800)),
    "reward": Habits(Range(1, 1), Range(500, 8e3), Range(20, 500)),
    "policy": Habits(Range(4, 15), Range(2e3, 10e3), Range(80, 500)),
}


@dataclass(frozen=True, slots=True)
class RoleEstimate:
    """The forecast of what one role (such as `reviewer`) takes in a run: calls, tokens and USD."""

    model: str
    conversations: Range
    calls: Range
    input_tokens: Range
    output_tokens: Range
    usd: Range | None
    """None: the price is unknown."""
    price_source: str | None
    measured: int = 0
    """How many recorded conversations the figures rest on; 0: they are assumed."""

    @property
    def tokens(self) -> Range:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class CostForecast:
    """The forecast of a run: its calls, tokens and USD, and the smallest gain that it can prove."""

    roles: Mapping[Role, RoleEstimate]
    calls: Range
    tokens: Range
    usd: Range | None
    """None: a price is unknown."""
    planned_candidates: int
    bought_candidates: Range | None
    """How many candidates the caps pay for, at high and at low cost; None: there is no cap."""
    smallest_effect: float | None
    """A share of clean success; None: these tasks can prove no effect."""
    effect_assumes: str
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "warnings": list(self.warnings)}


def estimate(
    config: RunConfig,
    plan: Plan,
    prices: Mapping[Role, Price | None],
    least: Detectable,
    taken: Mapping[Role, Sequence[Taken]] = MappingProxyType({}),
    habits: Mapping[Role, Habits] = MappingProxyType({}),
) -> CostForecast:
    """Returns the forecast of a run's cost and of the smallest gain that it can prove.

    Args:
        config: the run's settings.
        plan: the run's sizes, with the task counts that the domain really has.
        prices: the price of each role that asks a model; None if it is unknown.
        least: the smallest gain that the run can prove.
        taken: calls, tokens and cost of recorded conversations, by role, for better figures.
        habits: what conversations of a role are like, where the tasks say more than `ASSUMED`.
    """
    asking = {} if config.meta_model.startswith(REPLAY) else prices
    roles = {
        role: _of_role(
            config, plan, role, price, taken.get(role, ()), habits.get(role, ASSUMED[role])
        )
        for role, price in asking.items()
    }
    planned = plan.generations * config.candidates
    bought = _bought(config, planned, roles)
    warnings = (
        *unasked(config),
        *_of_agent(config, planned),
        *_of_money(planned, bought, roles),
        *_of_effect(plan, least),
    )
    return CostForecast(
        roles,
        _sum(role.calls for role in roles.values()) or Range(0, 0),
        _sum(role.tokens for role in roles.values()) or Range(0, 0),
        _sum(role.usd for role in roles.values()),
        planned,
        bought,
        least.effect,
        least.basis,
        warnings,
    )


def _of_role(
    config: RunConfig,
    plan: Plan,
    role: Role,
    price: Price | None,
    taken: Sequence[Taken],
    habits: Habits,
) -> RoleEstimate:
    conversations = _conversations(config, plan, role)
    model, source = config.model_of(role), price.source if price else None
    if taken:
        calls, read, written = (
            _measured(list(column), conversations)
            for column in zip(*(row[:3] for row in taken), strict=True)
        )
        amounts = [row.usd for row in taken if row.usd is not None]
        usd = _measured(amounts, conversations) if price else None
        return RoleEstimate(model, conversations, calls, read, written, usd, source, len(taken))
    calls = conversations.times(habits.exchanges)
    return RoleEstimate(
        model,
        conversations,
        calls,
        calls.times(habits.input_tokens),
        calls.times(habits.output_tokens),
        calls.times(_usd_of_call(habits, price)) if price else None,
        source,
    )


def _conversations(config: RunConfig, plan: Plan, role: Role) -> Range:
    drafts, usual_rows = plan.generations * config.candidates, Recipe().rows_per_step
    return {
        "analyst": Range(plan.generations, plan.generations),
        "proposer": Range(drafts, drafts),
        "reviewer": Range(drafts, drafts),
        "librarian": Range(plan.generations, drafts),
        # At most one question an attempt of the trainings, if a reward asks at all.
        "reward": Range(0, config.budget or (2 + 2 * drafts) * plan.steps * usual_rows),
    }.get(role) or Range(*plan.policy_conversations)


def _measured(amounts: Sequence[float], conversations: Range) -> Range:
    return Range(interval(amounts, conversations.low)[0], interval(amounts, conversations.high)[1])


def _usd_of_call(habits: Habits, price: Price) -> Range:
    few = round(habits.input_tokens.low)
    cheap = Usage(few, round(habits.output_tokens.low), cached_tokens=int(few * _CACHED_AT_BEST))
    dear = price.worst_usd(round(habits.input_tokens.high), round(habits.output_tokens.high))
    return Range(price.usd(cheap), dear)


def _sum(ranges: Iterable[Range | None]) -> Range | None:
    """Returns the sum, or None if a part is unknown."""
    total = Range(0, 0)
    for part in ranges:
        if part is None:
            return None
        total += part
    return total


# --- what the caps buy, and what can be proven ---------------------------------------------------


def _bought(config: RunConfig, planned: int, roles: Mapping[Role, RoleEstimate]) -> Range | None:
    """Returns how many candidates every cap pays for, if all cost the same; None: no cap."""
    capped: list[tuple[float | None, Range | None]] = [
        (config.max_usd, _sum(role.usd for role in roles.values())),
        (config.max_tokens, _sum(role.tokens for role in roles.values())),
        *((config.role_max_usd.get(name), role.usd) for name, role in roles.items()),
        *((config.role_max_tokens.get(name), role.tokens) for name, role in roles.items()),
    ]
    bought = [
        (
            math.floor(cap * planned / cost.high),
            math.floor(cap * planned / cost.low) if cost.low else math.inf,
        )
        for cap, cost in capped
        if cap is not None and cost is not None and cost.high > 0
    ]
    return Range(*map(min, zip(*bought, strict=True))) if bought else None


def _of_money(planned: int, bought: Range | None, roles: Mapping[Role, RoleEstimate]) -> list[str]:
    warnings = []
    unpriced = sorted({role.model for role in roles.values() if role.usd is None})
    if unpriced:
        warnings.append(
            f"the price of {', '.join(unpriced)} is unknown: cap tokens (--max-tokens), or state "
            "it under [prices] in meta-agent.toml"
        )
    if bought is not None and bought.low < planned:
        most = f" to {bought.high:.0f}" if bought.low < bought.high < planned else ""
        warnings.append(
            f"the caps may pay for only {bought.low:.0f}{most} of the {planned} candidates "
            "planned; the run then stops, and resumes when the cap is raised"
        )
    return warnings


def _of_agent(config: RunConfig, planned: int) -> list[str]:
    if not config.agent_is_asked:
        return []
    return [
        f"{config.meta_model} is asked in {planned} to {2 * planned} sessions, which its own login "
        "pays for: they are in no figure and under no cap here"
    ]


def too_coarse(effect: float | None) -> bool:
    """Returns True if a run proves only gains in clean success above 0.2, or none (None)."""
    return effect is None or effect > TOO_COARSE


def _of_effect(plan: Plan, least: Detectable) -> list[str]:
    if not too_coarse(least.effect):
        return []
    gains = f"only gains of {100 * (least.effect or 0):.0f} points and more"
    proven, tasks, enough = gains if least.effect else "nothing", plan.confirm, least.enough
    helps = [f"{enough} confirm tasks instead of {tasks}"] if enough else ["more tasks"]
    helps.append(plan.finer)
    return [f"{tasks} confirm tasks can prove {proven}; what helps: {', '.join(helps)}"]
