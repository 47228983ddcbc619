"""`full`: the loop of `core/loop/loop.py`; a frozen policy races instead of training bundles."""

from __future__ import annotations

from meta_agent.core.loop.loop import search_and_prove
from meta_agent.core.loop.records import HandedOver, Reading, SearchResult, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.cells import leave_one_out
from meta_agent.core.loop.verbs.claim import Sides, examine
from meta_agent.core.loop.verbs.hand_over import hand_over_version
from meta_agent.core.loop.verbs.promote import promote_diagnostics
from meta_agent.strategies.race import race


class Full:
    """The default strategy: searches, tests what it found against the start, and trains further."""

    mixes = staticmethod(leave_one_out)
    """Returns the sets of ideas to train: all of a bundle, and all without each of them."""

    def shows(self, reading: Reading) -> Reading:
        """Returns the evidence that a proposer may see. The default strategy shows all of it."""
        return reading

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        if run.plan.race:
            return examined(run, first, race(run, first, self.shows))
        return search_and_prove(run, first, self.shows, self.mixes)


def examined(run: Run, first: Version, search_result: SearchResult) -> HandedOver:
    """Tests the version found by a frozen policy's search against the first version.

    Returns the harness that the run ends with.
    """
    weights = run.lab.untrained()
    if not search_result.acting:
        watched = promote_diagnostics(run, first, search_result)
        return HandedOver(watched, weights, "start", "no edit was accepted")
    version = examine(run, Sides(first, search_result.version))
    return hand_over_version(run, first, search_result, (weights, weights), version)
