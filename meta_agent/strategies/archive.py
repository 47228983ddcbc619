"""`archive`: any valid version may be the next parent, drawn by its score and its few children.

The rule is that of the Darwin Goedel Machine (Zhang et al. 2025, arXiv 2505.22954): a parent is
drawn with a probability proportional to sigmoid(10 (a - 1/2)) / (1 + c), where a is its score on
the benchmark and c counts its children that work. Nothing is ever dropped.

`islands` does the same on islands, as AlphaEvolve does (Novikov et al. 2025, arXiv 2506.13131):
trials take turns among them, and a parent comes from the trial's own island. Every `MIGRATES`
rounds it may come from the neighbouring island instead.

What was changed: the agent that edits is not itself edited, because the proposer is not part of the
harness. One child is made at a time. The score is clean success on the search split. AlphaEvolve's
map of elites by features is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import ClassVar, Final

from meta_agent.strategies.branching import (
    START,
    Branching,
    Move,
    Node,
    children,
    drawn,
    expandable,
)

SHARPNESS: Final = 10.0
MIDDLE: Final = 0.5
MIGRATES: Final = 4
"""Rounds over all islands after which parents may come from the neighbouring one."""


def weight(nodes: Sequence[Node], node: Node) -> float:
    """Returns a node's weight in the random draw of a parent, not normalised.

    It rises with clean success and falls with the number of valid children.
    """
    score = 1 / (1 + math.exp(-SHARPNESS * (node.clean - MIDDLE)))
    return score / (1 + sum(child.valid for child in children(nodes, node)))


class Archive(Branching):
    """A search that may build on any version, drawn by its score and by how few children it has.

    With `islands`, the draw is among the versions of one island, a group of trials.
    """

    words: ClassVar[str] = (
        "Any earlier version may be the next parent: it is drawn by its score and by how few "
        "children it has. Nothing is dropped, so an idea that opens a new direction counts."
    )

    def __init__(self, islands: int = 1) -> None:
        self._islands = islands

    def next_move(self, nodes: Sequence[Node], luck: Random) -> Move | None:
        trial = 1 + max(node.trial for node in nodes)
        parents = self._inhabitants(expandable(nodes), trial) or expandable(nodes)
        parent = drawn(luck, parents, lambda node: weight(nodes, node))
        return Move(parent.number) if parent else None

    def _inhabitants(self, nodes: Sequence[Node], trial: int) -> list[Node]:
        """Returns the parents of a trial's island. The start lives on all islands."""
        rounds, island = divmod(trial, self._islands)
        if rounds and rounds % MIGRATES == 0:
            island = (island + 1) % self._islands
        here = [node for node in nodes if node.trial % self._islands == island]
        start = [node for node in nodes if node.number == START and node not in here]
        return [*start, *here]
