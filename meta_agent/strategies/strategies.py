"""How a run searches, by the name in its settings: the one table of strategies.

| name             | what it does                                                            |
|------------------|-------------------------------------------------------------------------|
| `full`           | bundles, each member left out once; one claim; trains to the end        |
| `no-diagnostics` | the same, by a proposer that sees scores alone                          |
| `static`         | proposes nothing: the whole budget into one training of the start       |
| `score-only`     | one change at a time, kept if the raw score on the search split went up |

Another way to search is a class with `carry_out` and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from meta_agent.core.loop.records import Strategy
from meta_agent.strategies._by_score import ScoreOnly
from meta_agent.strategies._scores_shown import ScoresShown
from meta_agent.strategies._static import Static
from meta_agent.strategies.full import Full

__all__ = ["STRATEGIES", "Strategy"]

STRATEGIES: Final[Mapping[str, Callable[[], Strategy]]] = {
    "full": Full,
    "no-diagnostics": ScoresShown,
    "static": Static,
    "score-only": ScoreOnly,
}
