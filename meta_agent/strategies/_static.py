"""`static`: no search at all; the harness of the start, and the whole budget into one training.

The rival that a search has to beat: somebody who trusts the harness and trains longer. The
checkpoint with the highest clean success on the search split is handed over, which favours this
rival: clean success is what the vault counts. A frozen policy is measured as it is.
"""

from __future__ import annotations

from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.train_on import one_long


class Static:
    """The harness of the start, trained for as long as the budget lasts."""

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        trained = one_long(run, first) if run.plan.trains else None
        return HandedOver(first, trained, "start", "nothing was searched for")
