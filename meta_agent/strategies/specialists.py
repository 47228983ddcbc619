"""`specialists`: one proposer for each factor; all of them build on one shared lineage.

The rule is that of "Auto Research with Specialist Agents" (Ning et al. 2026, arXiv 2605.05724): the
recipe is divided among specialists, and each trial is one edit of one specialist. All of them see
the measured lineage of all trials: outcomes, scores and typed failures. The next trial builds on
the best version so far.

What was changed: the specialists are the factors of the harness (scaffold, reward, filter, data,
recipe), and they take turns instead of working in parallel. The lineage is the history that every
proposer is shown. A specialist without an idea for a version waits until another one is the best.
Diagnostics have no specialist: they change no attempt, so no outcome of a trial could judge them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from meta_agent.core.protocols import FACTORS
from meta_agent.strategies.branching import Branching, Move, Node, best_of, expandable


class Specialists(Branching):
    """A search in which each proposal may edit one factor only; factors take turns."""

    words: ClassVar[str] = (
        "You are the specialist of the factors named here, and others edit the rest. All build on "
        "the best version. The history lists what everybody tried, with outcomes and failures."
    )

    def next_move(self, nodes: Sequence[Node], luck: Random) -> Move | None:
        """Returns an edit of the best version in the factor (such as reward) with fewest trials."""
        parents = [node for node in expandable(nodes) if node.open - {"diagnostics"}]
        if not parents:
            return None
        parent, turns = best_of(parents), Counter(node.factor for node in nodes)
        waiting = [factor for factor in FACTORS if factor in parent.open - {"diagnostics"}]
        return Move(parent.number, factors=(min(waiting, key=lambda factor: turns[factor]),))
