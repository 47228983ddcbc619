"""`tree`: best-first search in a tree, with nodes that repair failures and nodes that ablate.

The rule is that of The AI Scientist-v2 (Yamada et al. 2025, arXiv 2504.08066), whose tree search is
built on AIDE. First `DRAFTS` ideas are tried on the start. After that a failed leaf is repaired
with probability `REPAIRS`, up to `DEPTH` repairs deep; otherwise the best node is expanded.
Ablation nodes leave one member out of the best node, to show what it contributes.

What was changed: the paper runs ablations in a last stage, and here every `ABLATES`-th trial is one
if the best node has two members or more. A model judges which node is best in the paper; here it is
clean success on the search split. Nodes that tune hyperparameters or repeat a run under other seeds
are left out: the recipe is a factor like any other, and the claim repeats trainings. The rules
proposer repairs nothing, so with it a failed leaf is given up at its first repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Final

from meta_agent.strategies.branching import (
    START,
    Branching,
    Move,
    Node,
    best_of,
    children,
    expandable,
)

DRAFTS: Final = 3
REPAIRS: Final = 0.5
DEPTH: Final = 3
ABLATES: Final = 4


def repairable(nodes: Sequence[Node]) -> list[Node]:
    """Returns failed nodes to repair: those without a repair, and at most two repairs deep."""
    repaired = {node.other for node in nodes if node.kind == "repair"}
    return [
        node
        for node in nodes
        if node.failure and node.open and node.number not in repaired
        if _depth(nodes, node) < DEPTH
    ]


def _depth(nodes: Sequence[Node], node: Node) -> int:
    """Returns how many repairs in a row led to this node."""
    depth = 0
    while node.kind == "repair" and node.other is not None:
        node, depth = nodes[node.other], depth + 1
    return depth


def ablation(nodes: Sequence[Node]) -> Move | None:
    """Returns a step that leaves one candidate out of the best node, if one is left to try."""
    best = best_of([node for node in nodes if node.valid])
    ids = [member.id for member in best.members]
    for left_out in ids if len(ids) > 1 else ():
        rest = [name for name in ids if name != left_out]
        tried = ([m.id for m in node.members] for node in nodes if node.kind == "ablation")
        failed = any(n.kind == "ablation" and n.failure for n in children(nodes, best))
        if rest not in tried and not failed:
            return Move(best.number, "ablation", without=left_out)
    return None


class Tree(Branching):
    """A search that tries a few ideas first, then repairs failures or builds on the best node.

    Now and then it leaves one merged candidate out of the best node, to measure its share.
    """

    words: ClassVar[str] = (
        "The best version is expanded next. A candidate that fails may come back to its author "
        "for a repair, and members of the best version are left out now and then."
    )

    def next_move(self, nodes: Sequence[Node], luck: Random) -> Move | None:
        start = nodes[START]
        if len(children(nodes, start)) < DRAFTS and start.open:
            return Move(START)
        failed = repairable(nodes)
        if failed and luck.random() < REPAIRS:
            return Move(luck.choice(failed).number, "repair")
        trial = 1 + max(node.trial for node in nodes)
        move = ablation(nodes) if trial % ABLATES == ABLATES - 1 else None
        parents = expandable(nodes)
        if move or not parents:
            return move
        return Move(best_of(parents).number)
