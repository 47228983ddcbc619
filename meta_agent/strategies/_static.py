"""`static`: searches nothing and spends the whole budget on one training of the first harness.

A search has to beat this baseline, which keeps the harness and trains longer. It hands over the
checkpoint with the highest clean success on the search split. That favours the baseline, because
the vault counts clean success, too. A frozen policy is measured without training.
"""

from __future__ import annotations

from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.train_on import one_long


class Static:
    """The baseline without a search: trains the first harness for as long as the budget lasts."""

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        trained = one_long(run, first) if run.plan.trains else None
        return HandedOver(first, trained, "start", "nothing was searched for")
