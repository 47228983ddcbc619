"""The forecast of a run: what differs from the defaults, and tasks, calls and money by role."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from meta_agent.core.gate import NEAR
from meta_agent.core.loop.plan import MIN_PAIRS
from meta_agent.llm_clients.asking.estimate import CostForecast, Range
from meta_agent.policies.training.memory import Memory, by_part, gib
from meta_agent.reports._format import dollars
from meta_agent.reports.run_sections import settings_table
from meta_agent.reports.sections import Facts, Section, Table, Words, present
from meta_agent.reports.terminal.paint import painted

_SECONDS_A_CALL = (2, 8)
_COLUMNS = ("role", "model", "calls", "tokens in", "tokens out", "US$", "based on")


def forecast(
    config: Mapping[str, Any],
    plan: Mapping[str, Any],
    estimate: CostForecast,
    memory: Memory | None,
    workers: int,
    work: tuple[int, int] | None,
    step_attempts: tuple[int, int] | None = None,
    minutes: tuple[float, float] | None = None,
    splits: str = "",
) -> RenderableType:
    """Returns everything that `evolve --dry-run` prints: chosen settings, tasks, calls and costs.

    `memory` is what one training takes (None: nothing is trained). `workers` is the number of
    parallel trainings, `work` the most attempts and tokens. `step_attempts` are the fewest and the
    most attempts of a training step, `minutes` the fewest and the most of the run. `splits` says
    how the tasks are used, in the words that a run begins with.
    """
    by_role = Table(_COLUMNS, list(_by_role(estimate)), numbers=range(2, 6), whole=(0,))
    facts = [("tasks", splits if "vault" in splits else f"{splits}, {plan['vault']} in the vault")]
    facts += [*_calls(estimate, config.get("max_usd")), *_time(estimate, config)]
    facts += [*_effect(estimate), *_trainings(plan, step_attempts)]
    if memory is not None:
        facts.append(("memory of a training", f"{gib(memory.total)}: {by_part(memory)}"))
        facts.append(("trainings at once", str(workers)))
    if work is not None:
        attempts, tokens = work
        facts.append(("attempts", f"at most {attempts:,}, and those at vault tasks"))
        facts.append(("tokens of the policy", f"at most {_count(tokens)}; --limits lowers this"))
    if minutes is not None:
        low, high = minutes
        facts.append(("time", f"{low:.0f} to {high:.0f} minutes, by steps timed on this machine"))
    return painted(
        present(
            Section([settings_table(config, chosen=True)]),
            Section([Words("The other settings have their defaults: --json shows them.", "dim")]),
            Section([by_role]),
            Section([Facts(facts)]),
            *(Section([Words(f"! {warning}", "warn")]) for warning in estimate.warnings),
        )
    )


def _by_role(estimate: CostForecast) -> Iterator[tuple[str, ...]]:
    for role, calls in estimate.roles.items():
        sizes = (span(size) for size in (calls.calls, calls.input_tokens, calls.output_tokens))
        basis = f"{calls.measured} measured" if calls.measured else "assumed"
        yield role, calls.model, *sizes, money(calls.usd), basis


def _calls(estimate: CostForecast, cap_usd: Any) -> Iterator[tuple[str, str]]:
    if not estimate.roles:
        yield "model calls", "none: no model behind a server is asked"
        return
    yield "model calls", span(estimate.calls)
    yield "tokens", span(estimate.tokens)
    price = money(estimate.usd)
    if estimate.usd and isinstance(cap_usd, int | float) and cap_usd < estimate.usd.high:
        price = f"{money(estimate.usd.below(cap_usd))}, the cap; without it up to "
        price += dollars(estimate.usd.high)
    yield "price", price
    if not any(role.measured for role in estimate.roles.values()):
        yield (
            "",
            "nothing is measured yet. To narrow the range, start the run, press Ctrl-C once after "
            "five attempts and ask again; the same command then continues at no further cost",
        )
    sources = (role.price_source for role in estimate.roles.values())
    names = sorted({Path(source).name for source in sources if source})  # a file by its name
    if names:
        yield "prices from", ", ".join(names)


def _time(estimate: CostForecast, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the minutes of a run whose policy is behind a server."""
    policy = estimate.roles.get("policy")
    if policy is None:
        return
    at_once = int(config.get("concurrency") or 1)
    low, high = (
        calls * sec / 60 / at_once
        for calls, sec in zip((policy.calls.low, policy.calls.high), _SECONDS_A_CALL, strict=True)
    )
    words = f"{max(low, 1):,.0f} to {max(high, 1):,.0f} minutes of attempts"
    seconds = " to ".join(map(str, _SECONDS_A_CALL))
    yield "time", f"{words}, {at_once} at a time, assuming {seconds} seconds a call"


def _effect(estimate: CostForecast) -> Iterator[tuple[str, str]]:
    yield "candidates", _candidates(estimate)
    effect = estimate.smallest_effect
    proven = f"{100 * (effect or 0):.1f} points of clean success can be proven"
    nothing = "these tasks can prove no effect at all"
    yield "detectable effect", nothing if effect is None else proven
    yield "", estimate.effect_assumes


def _trainings(
    plan: Mapping[str, Any], step_attempts: tuple[int, int] | None
) -> Iterator[tuple[str, str]]:
    """Yields what further pairs of the claim and refilled groups may take."""
    most = plan["looks"][-1]
    if not plan["frozen"] and most > MIN_PAIRS:
        yield (
            "further pairs",
            f"a claim with {NEAR:.0%} of the evidence that it needs continues, up to {most} pairs. "
            f"Each costs two trainings of {plan['steps']} steps and {2 * plan['confirm']:,} "
            "attempts, of what would train on",
        )
    low, high = step_attempts or (0, 0)
    if low < high:
        yield (
            "attempts a step",
            f"{low:,} to {high:,}, as the recipe's refill_factor replaces groups that the filter "
            "drops",
        )


def _candidates(estimate: CostForecast) -> str:
    planned = f"{estimate.planned_candidates} planned"
    if estimate.bought_candidates is not None:
        return f"{planned}; the caps pay for {span(estimate.bought_candidates)}"
    return f"{planned}; no cap on money or tokens" if estimate.roles else planned


def money(usd: Range | None) -> str:
    """Returns a range of US$ as text, or `unknown` if a price is unknown."""
    if usd is None:
        return "unknown"
    return dollars(usd.low) if usd.low == usd.high else f"{dollars(usd.low)} to {dollars(usd.high)}"


def span(amount: Range) -> str:
    """Returns a range of counts as text, such as `120 to 1,400`; large counts are rounded."""
    low, high = _count(amount.low), _count(amount.high)
    return low if low == high else f"{low} to {high}"


def _count(amount: float) -> str:
    if math.isinf(amount):
        return "any number"
    if amount < 10_000:
        return f"{amount:,.0f}"
    unit, letter = (1e9, "G") if amount >= 1e9 else (1e6, "M") if amount >= 1e6 else (1e3, "k")
    return f"{amount / unit:.3g} {letter}"
