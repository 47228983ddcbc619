"""`frontier`: a bounded population of the best versions, with mutation and crossover.

The rule is that of GEAR-Fixed (Genetic AutoResearch, arXiv 2605.13874). A population of elite nodes
replaces the one incumbent. The parent has the highest sum of three terms: productivity (how often a
child of it was better), local novelty (how far the tasks that it solves are from those of its
nearest neighbours) and global coverage (how few of its factors were tried on it). Crossover merges
two members of the population.

What was changed: the paper's terms come from a model's reflections and from code distances, ours
from per-task outcomes and from the ledger. The three terms weigh the same, and their sum is
weighted by the node's score, which also decides who belongs to the population. Every `CROSSES`-th
trial is a crossover if a new pair merges. The controller stays as it is, so the paper's GEAR-Evolve
is not covered (`bilevel` is close to it).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random
from statistics import fmean
from typing import ClassVar, Final

from meta_agent.strategies.branching import Branching, Move, Node, children, cross

POPULATION: Final = 8
NEIGHBOURS: Final = 3
CROSSES: Final = 4
"""Every so many trials the population's members are crossed."""


def population(nodes: Sequence[Node]) -> list[Node]:
    """Returns the eight (or fewer) valid nodes with the highest clean success, best first."""
    valid = [node for node in nodes if node.valid]
    return sorted(valid, key=lambda node: (-node.clean, node.number))[:POPULATION]


def productivity(nodes: Sequence[Node], node: Node) -> float:
    """Returns the chance, by Laplace's rule, that a child of a node has more clean success."""
    tries = children(nodes, node)
    return (1 + sum(child.clean > node.clean for child in tries)) / (2 + len(tries))


def distance(node: Node, other: Node) -> float:
    """Returns the share of the tasks solved by either node that only one of the two solves."""
    either = node.solved | other.solved
    return len(node.solved ^ other.solved) / len(either) if either else 0.0


def novelty(elite: Sequence[Node], node: Node) -> float:
    """Returns the mean distance in solved tasks, 0 to 1, to the three nearest others in `elite`."""
    distances = sorted(distance(node, other) for other in elite if other is not node)
    return fmean(distances[:NEIGHBOURS]) if distances else 0.0


def coverage(nodes: Sequence[Node], node: Node) -> float:
    """Returns the share of the factors editable on a node that none of its children edits."""
    tried = {child.factor for child in children(nodes, node)}
    return len(node.open - tried) / len(node.open) if node.open else 0.0


def promise(nodes: Sequence[Node], elite: Sequence[Node], node: Node) -> float:
    """Returns how promising a node is: productivity + novelty + coverage, times clean success.

    Clean success is taken relative to that of the best node, which is the first of `elite`.
    """
    terms = productivity(nodes, node), novelty(elite, node), coverage(nodes, node)
    return sum(terms) * node.clean / (elite[0].clean or 1.0)


class Frontier(Branching):
    """A search that keeps a population of the best versions and edits the most promising one."""

    words: ClassVar[str] = (
        "A population of the best versions is kept. The next parent is the one whose children did "
        "well, that solves other tasks than its neighbours, and on which few factors were tried."
    )

    def next_move(self, nodes: Sequence[Node], luck: Random) -> Move | None:
        elite = population(nodes)
        trial = 1 + max(node.trial for node in nodes)
        crossed = self._cross(nodes, elite) if trial % CROSSES == CROSSES - 1 else None
        parents = [node for node in elite if node.open]
        if crossed or not parents:
            return crossed or self._cross(nodes, elite)

        return Move(max(parents, key=lambda node: promise(nodes, elite, node)).number)

    def _cross(self, nodes: Sequence[Node], elite: Sequence[Node]) -> Move | None:
        """Returns the crossover of the two most different members that were not crossed yet."""
        pairs = sorted(combinations(elite, 2), key=lambda pair: -distance(*pair))
        return next((move for pair in pairs if (move := cross(nodes, *pair))), None)
