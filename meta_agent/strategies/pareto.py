"""`pareto`: parents are drawn from the versions that are best at some task.

The rule is that of GEPA (Agrawal et al. 2025, arXiv 2507.19457). For every task the pool's best
score is taken, with all versions that reach it. A version is left out if, at each task where it is
among the best, others that stay are, too. The parent is drawn in proportion to the number of tasks
at which it is among the best. A child joins the pool only if it does better than its parent. After
a child has joined, two versions of the front may be merged, at most `MERGES` times.

What was changed: a child is compared with its parent on all search tasks, not on a small batch
first, because one training costs as much for either. Edits may touch any factor, not prompts alone.
GEPA's own engine is not called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import ClassVar, Final

from meta_agent.strategies.branching import START, Branching, Move, Node, best_of, cross, drawn

MERGES: Final = 5


def pool(nodes: Sequence[Node]) -> list[Node]:
    """Returns the start node and all valid nodes with more clean success than their parent."""
    return [
        node
        for node in nodes
        if node.number == START or (node.valid and node.clean > nodes[node.parent].clean)
    ]


def fronts(nodes: Sequence[Node]) -> list[frozenset[int]]:
    """Returns, for each task that any node solves, the numbers of all nodes that solve it."""
    tasks = sorted(set().union(*(node.solved for node in nodes)))
    return [frozenset(node.number for node in nodes if task in node.solved) for task in tasks]


def wins(nodes: Sequence[Node]) -> Counter[int]:
    """Counts the tasks that each node solves, by node number, without needless nodes.

    A node is needless if others solve each of its tasks as well. The worst are left out first.
    """
    best_at = fronts(nodes)
    stays = {node.number for node in nodes if any(node.number in front for front in best_at)}
    for node in sorted(nodes, key=lambda node: (node.clean, -node.number)):
        others = stays - {node.number}
        if node.number in stays and all(f & others for f in best_at if node.number in f):
            stays = others
    return Counter(number for front in best_at for number in front & stays)


class Pareto(Branching):
    """A search that builds on versions that solve tasks no other does, and merges such versions."""

    words: ClassVar[str] = (
        "A parent is drawn from the versions that solve tasks which the others do not. A child "
        "stays if it solves more tasks than its parent."
    )

    def next_move(self, nodes: Sequence[Node], luck: Random) -> Move | None:
        accepted = pool(nodes)
        count = wins(accepted)
        front = [node for node in accepted if count[node.number]]
        merges = sum(node.kind == "cross" for node in nodes)
        if nodes[-1] in accepted[1:] and nodes[-1].kind == "idea" and merges < MERGES:
            pairs = sorted(combinations(front, 2), key=lambda p: -(p[0].clean + p[1].clean))
            move = next((move for pair in pairs if (move := cross(nodes, *pair))), None)
            if move:
                return move
        parent = drawn(luck, [n for n in front if n.open], lambda node: count[node.number])
        if parent is None:
            rest = [node for node in accepted if node.open]
            parent = best_of(rest) if rest else None
        return Move(parent.number) if parent else None
