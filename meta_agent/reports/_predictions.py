"""How good forecasts were, in a line each: for the report, the page and `backtest --history`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_NAMES: Final = (
    ("proposer", "proposer's predictions", "of its own metric, whatever the unit: read the ranks"),
    ("replay", "replay's predictions", "gain in alignment against gain in clean success"),
)


def prediction_facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values; every figure with its interval and the number behind it."""
    for name, title, what in _NAMES:
        told = document["agreement"][name]
        if not told["n"]:
            yield title, "nothing to score yet"
            continue
        rank, line = _coefficient(told["spearman"]), _coefficient(told["pearson"])
        yield (
            title,
            f"n {told['n']}, right direction {told['right_direction']}, Spearman {rank}, "
            f"Pearson {line} ({what})",
        )


def _coefficient(told: Mapping[str, Any]) -> str:
    if told["value"] is None:
        return "–"
    if told["low"] is None:
        return f"{told['value']:+.2f} (too few for an interval)"
    return f"{told['value']:+.2f} [{told['low']:+.2f}, {told['high']:+.2f}]"
