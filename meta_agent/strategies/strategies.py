"""How a run searches, by the name in its settings: the one table of strategies.

| name             | what it does                                                            |
|------------------|-------------------------------------------------------------------------|
| `full`           | bundles, each member left out once; one claim; trains to the end        |
| `no-diagnostics` | the same, by a proposer that sees scores alone                          |
| `static`         | proposes nothing: the whole budget into one training of the start       |
| `score-only`     | one change at a time, kept if the raw score on the search split went up |

Another strategy is a class with `carry_out` and a row here, or an entry point of the group
`meta_agent.strategies`.
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
