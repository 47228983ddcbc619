"""The version that engines serve: weights, and an adapter on them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

BASE: Final = "policy"
"""An engine's name for weights without an adapter."""


class Served(NamedTuple):
    """One version of a policy."""

    name: str
    weights: Path  # a model's folder
    adapter: Path | None = None  # on these weights
    rank: int = 0  # of the adapter
    model: str = BASE  # what engines call it: of an adapter a name that was never used
