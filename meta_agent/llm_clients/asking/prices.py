"""What a call costs: the user's own prices, then litellm's table, and nothing else.

`[prices]` of the workspace's `meta-agent.toml` comes first. Then comes the table that the installed
litellm brings: its file is read, and litellm is not imported. A model without a row has no price:
None, never 0. A server of one's own, behind a base URL or started by us, has only the price that
its owner states, since a name does not say who serves it:

    [prices."openai/qwen3-8b"]      # USD per million tokens
    input = 0
    output = 0

Promises: `worst_usd` is never less than `usd` of a call with no more tokens.

Does not cover: batch, priority and hour-long cache rates, taxes and discounts.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from meta_agent.core.chat import Usage
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON

_LITELLM_TABLE: Final = "model_prices_and_context_window_backup.json"
_LONG_PROMPT: Final = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_MILLION: Final = 1_000_000
# litellm lists the models of these makers under their bare names.
_BARE_IN_LITELLM: Final = frozenset({"openai", "anthropic"})


@dataclass(frozen=True, slots=True)
class Rates:
    """A model's prices in USD per million tokens, for prompts of at least `above_input_tokens`."""

    input: float
    output: float
    cached: float
    cache_write: float
    above_input_tokens: int = 0

    def usd(self, usage: Usage) -> float:
        plain = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
        return (
            plain * self.input
            + usage.cached_tokens * self.cached
            + usage.cache_write_tokens * self.cache_write
            + usage.output_tokens * self.output
        ) / _MILLION

    def worst_usd(self, input_tokens: int, output_tokens: int) -> float:
        dearest = max(self.input, self.cached, self.cache_write)
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of one model, by length of the prompt, and the source that they come from."""

    rates: tuple[Rates, ...]  # ascending by `above_input_tokens`; the first holds from 0
    source: str

    def usd(self, usage: Usage) -> float:
        return self._rates_for(usage.input_tokens)[-1].usd(usage)

    def worst_usd(self, input_tokens: int, output_tokens: int) -> float:
        """Returns the most USD that a call with at most so many tokens can cost."""
        rates = self._rates_for(input_tokens)
        return max(rate.worst_usd(input_tokens, output_tokens) for rate in rates)

    def _rates_for(self, input_tokens: int) -> list[Rates]:
        return [rates for rates in self.rates if input_tokens >= rates.above_input_tokens]

    def to_json(self) -> dict[str, JSON]:
        return {"source": self.source, "rates": [asdict(rates) for rates in self.rates]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Price:
        return cls(tuple(Rates(**rates) for rates in value["rates"]), value["source"])


FREE: Final = Price((Rates(0.0, 0.0, 0.0, 0.0),), "nothing is asked")


def price_of(model: str, *, stated: Mapping[str, Price], own_server: bool = False) -> Price | None:
    """Returns the price of a model string, or None if it is unknown.

    `stated` holds the user's prices by model; on the user's own server only these count.
    """
    if model.startswith("scripted:"):
        return FREE
    if model in stated or own_server:
        return stated.get(model)
    return _from_litellm(model.removeprefix("litellm/"))


def stated_prices(table: Mapping[str, Any], where: str) -> dict[str, Price]:
    """Returns the user's own prices by model string, from a table of the settings file `where`.

    Raises ConfigError if an entry is not a price.
    """
    return {model: _stated(model, row, where) for model, row in table.items()}


def _stated(model: str, row: Any, where: str) -> Price:
    fields = {"input", "output", "cached", "cache_write"}
    sound = isinstance(row, Mapping) and {"input", "output"} <= set(row) <= fields
    if not sound or not all(_is_amount(value) for value in row.values()):
        raise ConfigError(
            f'{where}: [prices."{model}"] is not a valid price',
            hint="state input and output (and cached, cache_write if they differ from input) in "
            "USD per million tokens, each 0 or more",
        )
    return Price((_rates(row),), where)


def _is_amount(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def _rates(row: Mapping[str, float], above: int = 0) -> Rates:
    """Takes the full rate for cached tokens if the row has none: too dear, never too cheap."""
    full = float(row["input"])
    written = float(row.get("cache_write", full))
    return Rates(full, float(row["output"]), float(row.get("cached", full)), written, above)


def window_of(model: str) -> int | None:
    """Returns a model's context length in tokens from litellm's table, or None if it has none."""
    tokens = (_litellm_row(model.removeprefix("litellm/")) or {}).get("max_input_tokens")
    return tokens if isinstance(tokens, int) else None


def _litellm_row(model: str) -> Mapping[str, Any] | None:
    provider, _, name = model.partition("/")
    table = _litellm_table()
    row = table.get(model)
    if row is None and provider in _BARE_IN_LITELLM:
        row = table.get(name)
        row = row if row and row.get("litellm_provider") == provider else None
    return row


def _from_litellm(model: str) -> Price | None:
    row = _litellm_row(model)
    plain = _litellm_rates(row, "", 0) if row else None
    if row is None or plain is None:
        return None
    lengths = sorted(int(match[1]) for name in row if (match := _LONG_PROMPT.fullmatch(name)))
    longer = (_litellm_rates(row, f"_above_{n}k_tokens", n * 1000) for n in lengths)
    rates = (plain, *(rates for rates in longer if rates))
    return Price(rates, f"litellm {importlib.metadata.version('litellm')}")


def _litellm_rates(row: Mapping[str, Any], suffix: str, above: int) -> Rates | None:
    """Returns None for a row with a 0, which may mean "free" or "unknown" in litellm."""
    names = {
        "input": "input_cost_per_token",
        "output": "output_cost_per_token",
        "cached": "cache_read_input_token_cost",
        "cache_write": "cache_creation_input_token_cost",
    }
    costs = {ours: row.get(theirs + suffix) or row.get(theirs) for ours, theirs in names.items()}
    amounts = {name: cost * _MILLION for name, cost in costs.items() if _is_amount(cost) and cost}
    return _rates(amounts, above) if {"input", "output"} <= set(amounts) else None


@cache
def _litellm_table() -> Mapping[str, Mapping[str, Any]]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    try:
        table = json.loads(Path(spec.origin).with_name(_LITELLM_TABLE).read_bytes())
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}
