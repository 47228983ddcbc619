"""`bilevel`: an outer search chooses how the inner search chooses its parents.

The rule is that of "Bilevel Autoresearch" (Qu and Lu 2026, arXiv 2603.23420): an outer loop reads
the trace of the inner loop and changes its mechanism, and a change stays if the inner loop finds
more with it. Every `PERIOD` trials the outer loop here chooses a mechanism for the next trials. It
tries every mechanism once, and then takes the one that found most points of clean success for each
attempt. The oldest of its periods count less, so a mechanism that has run dry is left.

What was changed: in the paper a model writes the mechanism as code, which is injected at runtime.
Here the mechanisms are a table of parents' rules, so the outer loop chooses and writes nothing.
Code of a model would have to run in a sandbox and to answer the same way after a kill; that is not
built. The paper reports that choosing parameters alone gained little, so this is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import ClassVar, Final

from meta_agent.strategies.archive import Archive
from meta_agent.strategies.branching import Branching, Move, Node, best_of, expandable
from meta_agent.strategies.frontier import Frontier
from meta_agent.strategies.pareto import Pareto

PERIOD: Final = 4
"""Trials after which the mechanism is chosen anew."""
FADES: Final = 0.5
"""What a period counts, for each later period of the same mechanism."""
Mechanism = Callable[[Sequence[Node], Random], Move | None]


def _best_first(nodes: Sequence[Node], luck: Random) -> Move | None:
    parents = expandable(nodes)
    return Move(best_of(parents).number) if parents else None


MECHANISMS: Final[Mapping[str, Mechanism]] = {
    "best first": _best_first,
    "archive": Archive().next_move,
    "frontier": Frontier().next_move,
    "pareto": Pareto().next_move,
}


def yields(nodes: Sequence[Node]) -> list[float]:
    """Returns how much the best clean success rose per attempt, in each period of four trials."""
    periods = 1 + max(node.trial for node in nodes) // PERIOD
    rates, best = [], nodes[0].clean
    for period in range(periods):
        trials = [node for node in nodes if node.trial >= 0 and node.trial // PERIOD == period]
        after = max([best, *(node.clean for node in trials if node.valid)])
        rates.append((after - best) / max(1, sum(node.attempts for node in trials)))
        best = after
    return rates


def schedule(nodes: Sequence[Node]) -> str:
    """Returns the name of the rule that picks the next trial's parent node, such as "archive"."""
    trial = 1 + max(node.trial for node in nodes)
    rates, worth = yields(nodes), dict[str, float]()
    name = next(iter(MECHANISMS))
    for period in range(trial // PERIOD + 1):
        untried = [mechanism for mechanism in MECHANISMS if mechanism not in worth]
        name = untried[0] if untried else max(worth, key=lambda mechanism: worth[mechanism])
        if period < trial // PERIOD:
            rate = rates[period]
            worth[name] = rate if name not in worth else FADES * worth[name] + (1 - FADES) * rate
    return name


class Bilevel(Branching):
    """A search that draws parents by one of several rules, mostly by the most fruitful so far.

    A rule is fruitful if clean success rose much per attempt while it was used.
    """

    words: ClassVar[str] = (
        "How the next parent is chosen changes during the run, by what has found most so far."
    )

    def next_move(self, nodes: Sequence[Node], luck: Random) -> Move | None:
        return MECHANISMS[schedule(nodes)](nodes, luck) or _best_first(nodes, luck)
