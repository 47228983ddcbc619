"""What recorded conversations took: the basis of a forecast once a workspace has some.

Promises: only conversations with the same model in the same role count, and they are charged at
today's prices, cached tokens as the provider counted them. A conversation with errors counts with
the replies that it got.

Does not cover: whether later versions of the harness talk longer, and an attempt that a second
Ctrl-C cut short, which counts as if it had ended there.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scipy.special import stdtrit

from meta_agent.core.protocols import Role
from meta_agent.llm_clients.asking.prices import Price
from meta_agent.llm_clients.asking.transcripts import Exchange, Transcripts

FEWEST: Final = 3
"""With fewer conversations of a role its forecast stays an assumption."""
_MOST: Final = 64  # conversations of a role that are read in each run
_CONFIDENCE: Final = 0.9


class Taken(NamedTuple):
    """Calls, tokens and cost of one conversation. `usd` is None if the price is unknown."""

    calls: float
    input_tokens: float
    output_tokens: float
    usd: float | None


def conversations_of(
    root: Path, model_of: Callable[[Role], str], prices: Mapping[Role, Price | None]
) -> dict[Role, list[Taken]]:
    """Returns calls, tokens and cost of recorded conversations by role, from transcripts in `root`.

    A conversation counts if its role asked `model_of(role)`, up to 64 with like names in a run.
    Roles with fewer than three conversations are left out.
    """
    taken: dict[Role, list[Taken]] = {role: [] for role in prices}
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        transcripts = Transcripts(folder)
        models = (transcripts.manifest() or {}).get("models", {})
        names: dict[str, list[str]] = {}
        for name in transcripts.conversations():
            if not name.startswith("preflight/"):
                names.setdefault(_kind(name), []).append(name)
        for name in (name for alike in names.values() for name in alike[:_MOST]):
            exchanges = transcripts.read(name)
            for role in {exchange.role for exchange in exchanges} & prices.keys():
                if models.get(role) == model_of(role):
                    taken[role].append(_amounts(exchanges, prices[role]))
    return {role: rows for role, rows in taken.items() if len(rows) >= FEWEST}


def interval(amounts: Sequence[float], conversations: float) -> tuple[float, float]:
    """Returns the 90 % prediction interval of the sum over a number of future conversations.

    `amounts` holds the tokens or cost of each of two or more recorded conversations.
    """
    count, mean = len(amounts), statistics.fmean(amounts)
    deviation = statistics.stdev(amounts)
    quantile = float(stdtrit(count - 1, (1 + _CONFIDENCE) / 2))
    spread = quantile * deviation * math.sqrt(conversations + conversations**2 / count)
    total = conversations * mean
    # No sum is below that of the shortest conversation, as far as anybody has seen one.
    return max(total - spread, conversations * min(amounts)), total + spread


def _kind(name: str) -> str:
    """Returns `policy` for an attempt, and the last part of the name for a team's conversation."""
    first, _, rest = name.partition("/")
    return first if first == "policy" else rest.rpartition("/")[2].rstrip("0123456789")


def _amounts(exchanges: Sequence[Exchange], price: Price | None) -> Taken:
    usages = [exchange.reply.usage for exchange in exchanges]
    return Taken(
        len(usages),
        sum(usage.input_tokens for usage in usages),
        sum(usage.output_tokens for usage in usages),
        None if price is None else sum(price.usd(usage) for usage in usages),
    )
