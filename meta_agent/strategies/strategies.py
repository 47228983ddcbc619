"""The one table of search strategies, by their names in the settings.

| name                 | what it does                                                            |
|----------------------|-------------------------------------------------------------------------|
| `full`               | bundles ideas, leaves each out once, makes one claim, trains to the end |
| `staged`             | races edits with frozen weights, trains in legs, edits between legs     |
| `no-diagnostics`     | searches as `full` does, with a proposer that sees scores alone         |
| `no-memory`          | is `full` with a proposer that does not know what was tried             |
| `no-bundles`         | is `full` with each idea trained alone                                  |
| `no-leaving-out`     | is `full` without the bundles that lack one idea                        |
| `static`             | proposes nothing and spends the budget on one training of the start     |
| `imitate`            | lets the start imitate references of training tasks, and nothing else   |
| `imitate-then-train` | spends what that leaves of the budget on one training                   |
| `score-only`         | keeps one change at a time if the raw score on the search split rises   |
| `frontier`           | keeps a population, with mutation and crossover (GEAR)                  |
| `archive`            | draws parents from all versions (Darwin Goedel Machine)                 |
| `islands`            | does the same on three islands (AlphaEvolve)                            |
| `pareto`             | draws parents from the front over tasks (GEPA)                          |
| `tree`               | expands the best node, repairs failures, ablates (AI Scientist-v2)      |
| `specialists`        | lets a proposer for each factor edit the best version in turn           |
| `bilevel`            | chooses its own parents' rule by what each has found (Bilevel)          |

All but `static`, `score-only` and the two that imitate hand over under the same gate. To add a
strategy, write a class with `carry_out` and add a row here, or register an entry point of the group
`meta_agent.strategies`. A class may set `one_at_a_time`; then `compare` lets it go on with single
ideas until its budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from meta_agent.core import registry
from meta_agent.core.loop.records import Strategy
from meta_agent.core.registry import Registry
from meta_agent.strategies._ablations import NoBundles, NoLeavingOut, NoMemory
from meta_agent.strategies._baselines import (
    Imitate,
    ImitateThenTrain,
    ScoreOnly,
    ScoresShown,
    Static,
)
from meta_agent.strategies.archive import Archive
from meta_agent.strategies.bilevel import Bilevel
from meta_agent.strategies.frontier import Frontier
from meta_agent.strategies.full import Full
from meta_agent.strategies.pareto import Pareto
from meta_agent.strategies.specialists import Specialists
from meta_agent.strategies.staged import Staged
from meta_agent.strategies.tree import Tree

__all__ = ["STRATEGIES", "Strategy", "tries_single_ideas"]

STRATEGIES: Final = Registry[Callable[[], Strategy]](
    "strategy",
    registry.STRATEGIES,
    {
        "full": Full,
        "staged": Staged,
        "no-diagnostics": ScoresShown,
        "no-memory": NoMemory,
        "no-bundles": NoBundles,
        "no-leaving-out": NoLeavingOut,
        "static": Static,
        "imitate": Imitate,
        "imitate-then-train": ImitateThenTrain,
        "score-only": ScoreOnly,
        "frontier": Frontier,
        "archive": Archive,
        "islands": partial(Archive, islands=3),
        "pareto": Pareto,
        "tree": Tree,
        "specialists": Specialists,
        "bilevel": Bilevel,
    },
)


def tries_single_ideas(name: str) -> bool:
    """Returns True if a strategy tries ideas one by one, so that it can spend any budget."""
    return bool(getattr(STRATEGIES[name](), "one_at_a_time", False))
