"""The forecast of a run, drawn: settings with their origin, sizes, calls and money by role."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meta_agent.llm_clients.asking.estimate import Estimate, Range
from meta_agent.policies.training.memory import Memory, by_part, gib
from meta_agent.reports._format import dollars, visible
from meta_agent.reports.terminal import text
from meta_agent.reports.terminal._tables import facts_table, listed


class Placed(Protocol):
    """Trainings side by side, and what each takes."""

    @property
    def workers(self) -> int: ...
    @property
    def memory(self) -> Memory | None: ...


def forecast(
    config: Mapping[str, Any], plan: Mapping[str, Any], told: Estimate, placed: Placed
) -> RenderableType:
    """All of `evolve --dry-run`."""
    parts: list[RenderableType] = [text.settings(config, plan), Text()]
    if told.roles:
        parts += [_by_role(told), Text()]
    facts = (*_facts(told), *_memory(placed))
    parts.append(facts_table((name, visible(value)) for name, value in facts))
    for warning in told.warnings:
        parts += [Text(), Text(f"! {visible(warning)}", style="bold yellow")]
    return Group(*parts)


def _by_role(told: Estimate) -> Table:
    rows = []
    for role, one in told.roles.items():
        price = one.price_source or "price unknown"
        cells = (
            role,
            one.model,
            span(one.calls),
            span(one.input_tokens),
            span(one.output_tokens),
            money(one.usd),
            f"{one.basis}; {price}",
        )
        rows.append(map(visible, cells))
    headings = ("role", "model", "calls", "tokens in", "tokens out", "US$", "rests on")
    return listed(headings, rows, right=range(2, 6), whole=(0, *range(2, 6)))


def _facts(told: Estimate) -> Iterator[tuple[str, str]]:
    if told.roles:
        yield "model calls", span(told.calls)
        yield "tokens", span(told.tokens)
        yield "price", money(told.usd)
    else:
        yield "model calls", "none: no model behind a server is asked"
    yield "candidates", _candidates(told)
    yield "detectable effect", _effect(told)
    yield "", told.effect_assumes


def _memory(placed: Placed) -> Iterator[tuple[str, str]]:
    if placed.memory is not None:
        yield "memory of a training", f"{gib(placed.memory.total)}: {by_part(placed.memory)}"
        yield "trainings at once", str(placed.workers)


def _candidates(told: Estimate) -> str:
    planned = f"{told.planned_candidates} planned"
    bought = told.bought_candidates
    if bought is None:
        return f"{planned}; no cap on money or tokens" if told.roles else planned
    return f"{planned}; the caps pay for {span(bought)}"


def _effect(told: Estimate) -> str:
    if told.smallest_effect is None:
        return "these tasks can prove no effect at all"
    return f"{100 * told.smallest_effect:.1f} points of clean success can be proven"


def money(usd: Range | None) -> str:
    """A range of money; unknown where a price is."""
    if usd is None:
        return "unknown"
    return dollars(usd.low) if usd.low == usd.high else f"{dollars(usd.low)} to {dollars(usd.high)}"


def span(amount: Range) -> str:
    """`120 to 1,400`; large counts in two digits, since they are no better known."""
    low, high = _count(amount.low), _count(amount.high)
    return low if low == high else f"{low} to {high}"


def _count(amount: float) -> str:
    if math.isinf(amount):
        return "any number"
    if amount < 10_000:
        return f"{amount:,.0f}"
    unit, letter = (1e9, "G") if amount >= 1e9 else (1e6, "M") if amount >= 1e6 else (1e3, "k")
    return f"{amount / unit:.3g} {letter}"
