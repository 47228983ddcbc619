"""The one table of search strategies, by their names in the settings.

| name             | what it does                                                            |
|------------------|-------------------------------------------------------------------------|
| `full`           | bundles ideas, leaves each out once, makes one claim, trains to the end |
| `no-diagnostics` | does the same with a proposer that sees scores alone                    |
| `static`         | proposes nothing and spends the budget on one training of the start     |
| `score-only`     | keeps one change at a time if the raw score on the search split rises   |

To add a strategy, write a class with `carry_out` and add a row here, or register an entry point of
the group `meta_agent.strategies`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from meta_agent.core import registry
from meta_agent.core.loop.records import Strategy
from meta_agent.core.registry import Registry
from meta_agent.strategies._by_score import ScoreOnly
from meta_agent.strategies._scores_shown import ScoresShown
from meta_agent.strategies._static import Static
from meta_agent.strategies.full import Full

__all__ = ["STRATEGIES", "Strategy"]

STRATEGIES: Final = Registry[Callable[[], Strategy]](
    "strategy",
    registry.STRATEGIES,
    {"full": Full, "no-diagnostics": ScoresShown, "static": Static, "score-only": ScoreOnly},
)
