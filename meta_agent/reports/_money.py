"""Spend by role. A price that is not known is never 0, and reserved amounts are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from typing import Final

from meta_agent.core.ledger import Spend
from meta_agent.core.protocols import JSON
from meta_agent.reports._format import dollars

HEADINGS: Final = ("role", "calls", "tokens", "US$", "not settled")


def usd_of(part: Spend) -> float | None:
    """Returns a role's US$, with sums held for unanswered calls; None if a price is unknown."""
    return None if part.unpriced_calls else part.usd + part.open_usd


def total_usd(amounts: Iterable[float | None]) -> float | None:
    """Returns the sum of amounts in US$, or None if one of them is unknown (None)."""
    every = list(amounts)
    priced = [amount for amount in every if amount is not None]
    return sum(priced) if len(priced) == len(every) else None


def by_role_json(spend: Mapping[str, Spend]) -> dict[str, JSON]:
    """Returns calls, tokens and US$ of each role that asks models, for the JSON field `by_role`."""
    return {
        role: {
            "calls": part.calls,
            "tokens": part.tokens + part.open_tokens,
            "usd": usd_of(part),
            "open_tokens": part.open_tokens,
            "open_usd": part.open_usd,
            "unpriced_calls": part.unpriced_calls,
        }
        for role, part in spend.items()
    }


def rows(spend: Mapping[str, Spend]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yields rows (role, calls, tokens, US$, held for unanswered calls), the last with the sums."""
    everything = [("all", _sum(spend.values()))] if spend else []
    for role, part in [*spend.items(), *everything]:
        tokens = part.tokens + part.open_tokens
        yield role, f"{part.calls:,}", f"{tokens:,}", _usd(part), _set_aside(part)


def _sum(parts: Iterable[Spend]) -> Spend:
    columns = zip(*(astuple(part) for part in parts), strict=True)
    return Spend(*(sum(column) for column in columns))


def _usd(part: Spend) -> str:
    amount = dollars(part.usd + part.open_usd)
    if not part.unpriced_calls:
        return amount
    if part.unpriced_calls == part.calls:
        return "unknown"
    calls = "1 call" if part.unpriced_calls == 1 else f"{part.unpriced_calls} calls"
    return f"{amount} + unknown ({calls} without a price)"


def _set_aside(part: Spend) -> str:
    """Returns what is held for calls whose outcome is unknown, or a dash. It counts as spent."""
    if not part.open_tokens and not part.open_usd:
        return "–"
    return f"{part.open_tokens:,} tokens, {dollars(part.open_usd)}"
