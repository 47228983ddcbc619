"""What a run will probably cost, and the smallest gain that it could prove, before it starts.

Counts follow from the plan. Exchanges and tokens come from the record of an earlier run, or from
assumptions if there is none; `basis` says which. Both are ranges. The low end takes most of the
input from the provider's cache, the high end none of it.

Does not cover: what a model will really write. This is a forecast; `--max-usd` is the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from meta_agent.core.chat import Usage
from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import JSON, Role
from meta_agent.llm_clients.asking._replay import PREFIX as REPLAY
from meta_agent.llm_clients.asking._roles import unasked
from meta_agent.llm_clients.asking.prices import Price
from meta_agent.llm_clients.asking.transcripts import MANIFEST, Exchange, Transcripts

TOO_COARSE: Final = 0.20
"""The forecast warns above this effect: few single changes to an agent gain as much."""
_CACHED_AT_BEST: Final = 0.8


@dataclass(frozen=True, slots=True)
class Range:
    """From the low end to the high end."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def times(self, other: Range) -> Range:
        """Multiplies low by low and high by high."""
        return Range(self.low * other.low, self.high * other.high)


_NOTHING: Final = Range(0, 0)


class Detectable(NamedTuple):
    """The minimum detectable effect at 80 % power (None: there is none), and its basis."""

    effect: float | None
    basis: str
    enough: int | None = None
    """How many confirm tasks would be enough, if the effect is too coarse."""


class Sizes(Protocol):
    """The part of `core.loop.plan.Plan` that an estimate needs."""

    @property
    def confirm(self) -> int: ...
    @property
    def generations(self) -> int: ...
    @property
    def policy_conversations(self) -> tuple[int, int]: ...
    @property
    def finer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Habits:
    """A role's usual exchanges in a conversation, and tokens in an exchange."""

    exchanges: Range
    input_tokens: Range
    output_tokens: Range
    basis: str = "assumed"


ASSUMED: Final[Mapping[Role, Habits]] = {
    "analyst": Habits(Range(8, 30), Range(6e3, 20e3), Range(200, 800)),
    "proposer": Habits(Range(10, 40), Range(6e3, 20e3), Range(200, 800)),
    "reviewer": Habits(Range(1, 6), Range(4e3, 12e3), Range(200, 800)),
    "librarian": Habits(Range(1, 4), Range(3e3, 10e3), Range(200, 800)),
    "policy": Habits(Range(4, 15), Range(2e3, 10e3), Range(80, 500)),
}
_AROUND_MEASURED: Final = Range(0.7, 1.5)


@dataclass(frozen=True, slots=True)
class RoleEstimate:
    """The estimate of one role."""

    model: str
    conversations: Range
    calls: Range
    input_tokens: Range
    output_tokens: Range
    usd: Range | None
    """None: the price is unknown."""
    price_source: str | None
    basis: str
    """`assumed`, or the run on which it was measured."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The forecast of a run."""

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
    plan: Sizes,
    prices: Mapping[Role, Price | None],
    least: Detectable,
    measured: Mapping[Role, Habits] | None = None,
) -> Estimate:
    """Returns the forecast for these settings.

    Args:
        config: the run's settings.
        plan: its sizes, with the task counts that the domain really has.
        prices: `client.prices_in_use(config)`: one entry for each role that asks a model.
        least: the minimum detectable effect.
        measured: `measured_in(...)` of an earlier run, or None.
    """
    habits = {**ASSUMED, **(measured or {})}
    asking = {} if config.meta_model.startswith(REPLAY) else prices
    roles = {
        role: _of_role(config, plan, role, habits[role], price) for role, price in asking.items()
    }
    planned = plan.generations * config.candidates
    bought = _bought(config, planned, roles)
    return Estimate(
        roles=roles,
        calls=_sum(role.calls for role in roles.values()),
        tokens=_sum(_tokens(role) for role in roles.values()),
        usd=_sum_if_known(role.usd for role in roles.values()),
        planned_candidates=planned,
        bought_candidates=bought,
        smallest_effect=least.effect,
        effect_assumes=least.basis,
        warnings=(
            *unasked(config),
            *_of_agent(config, planned),
            *_of_money(planned, bought, roles),
            *_of_effect(plan, least),
        ),
    )


def measured_in(transcripts: Transcripts) -> dict[Role, Habits]:
    """Returns the habits of each role in a recorded run."""
    by_role: dict[Role, list[Exchange]] = {}
    for exchange in transcripts.exchanges():
        by_role.setdefault(exchange.role, []).append(exchange)
    run = str((transcripts.manifest() or {}).get("run_id", transcripts.root.name))
    return {role: _habits(rows, f"measured on {run}") for role, rows in by_role.items()}


def latest_transcripts(workspace: Path) -> Transcripts | None:
    """Returns the record of the workspace's newest run that asked a model, or None."""
    manifests = sorted((workspace / "transcripts").glob(f"*/{MANIFEST}"), key=_changed_at)
    return Transcripts(manifests[-1].parent) if manifests else None


def _changed_at(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime, str(path)


def _habits(exchanges: list[Exchange], basis: str) -> Habits:
    conversations = len({exchange.conversation for exchange in exchanges})
    usages = [exchange.reply.usage for exchange in exchanges]

    def around(mean: float) -> Range:
        return Range(mean, mean).times(_AROUND_MEASURED)

    return Habits(
        around(len(exchanges) / conversations),
        around(sum(usage.input_tokens for usage in usages) / len(usages)),
        around(sum(usage.output_tokens for usage in usages) / len(usages)),
        basis,
    )


# --- counting ----------------------------------------------------------------------------------


def _of_role(
    config: RunConfig, plan: Sizes, role: Role, habits: Habits, price: Price | None
) -> RoleEstimate:
    conversations = _conversations(config, plan, role)
    calls = conversations.times(habits.exchanges)
    usd = _usd_of_call(habits, price) if price else None
    return RoleEstimate(
        model=config.model_of(role),
        conversations=conversations,
        calls=calls,
        input_tokens=calls.times(habits.input_tokens),
        output_tokens=calls.times(habits.output_tokens),
        usd=calls.times(usd) if usd else None,
        price_source=price.source if price else None,
        basis=habits.basis,
    )


def _conversations(config: RunConfig, plan: Sizes, role: Role) -> Range:
    generations, drafts = plan.generations, plan.generations * config.candidates
    if role == "analyst":
        return Range(generations, generations)
    if role in ("proposer", "reviewer"):
        return Range(drafts, drafts)
    if role == "librarian":
        return Range(generations, drafts)
    return Range(*plan.policy_conversations)


def _usd_of_call(habits: Habits, price: Price) -> Range:
    few = round(habits.input_tokens.low)
    cheap = Usage(few, round(habits.output_tokens.low), cached_tokens=int(few * _CACHED_AT_BEST))
    dear = price.worst_usd(round(habits.input_tokens.high), round(habits.output_tokens.high))
    return Range(price.usd(cheap), dear)


def _tokens(role: RoleEstimate) -> Range:
    return role.input_tokens + role.output_tokens


def _sum(ranges: Iterable[Range]) -> Range:
    return sum(ranges, _NOTHING)


def _sum_if_known(ranges: Iterable[Range | None]) -> Range | None:
    """Returns the sum, or None if a part is unknown."""
    total = _NOTHING
    for part in ranges:
        if part is None:
            return None
        total += part
    return total


# --- what the caps buy, and what can be proven ---------------------------------------------------


def _bought(config: RunConfig, planned: int, roles: Mapping[Role, RoleEstimate]) -> Range | None:
    """Returns how many candidates every cap pays for, if all cost the same; None: no cap."""
    every = roles.values()
    capped: list[tuple[float | None, Range | None]] = [
        (config.max_usd, _sum_if_known(role.usd for role in every)),
        (config.max_tokens, _sum(_tokens(role) for role in every)),
        *((config.role_max_usd.get(name), role.usd) for name, role in roles.items()),
        *((config.role_max_tokens.get(name), _tokens(role)) for name, role in roles.items()),
    ]
    bought = [
        Range(_floor(cap * planned, cost.high), _floor(cap * planned, cost.low))
        for cap, cost in capped
        if cap is not None and cost is not None and cost.high > 0
    ]
    if not bought:
        return None
    return Range(min(span.low for span in bought), min(span.high for span in bought))


def _floor(amount: float, cost: float) -> float:
    return math.floor(amount / cost) if cost else math.inf


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
    """Returns True if a plan that can prove no smaller effect deserves a warning."""
    return effect is None or effect > TOO_COARSE


def _of_effect(plan: Sizes, least: Detectable) -> list[str]:
    if not too_coarse(least.effect):
        return []
    gains = f"only gains of {100 * (least.effect or 0):.0f} points and more"
    proven, tasks, enough = gains if least.effect else "nothing", plan.confirm, least.enough
    helps = [f"{enough} confirm tasks instead of {tasks}"] if enough else ["more tasks"]
    helps.append(plan.finer)
    return [f"{tasks} confirm tasks can prove {proven}; what helps: {', '.join(helps)}"]
