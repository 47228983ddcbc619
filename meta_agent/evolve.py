"""The loop: collect, read, propose, test, judge, merge, learn; then the vault, once.

One generation reads top to bottom in `_generation`. Each verb is a file in `steps/`, each of those
calls one room, and every durable step is journalled: running the same command again resumes.
"""

from __future__ import annotations

from typing import NamedTuple

from meta_agent.config import RunConfig
from meta_agent.evidence import Evidence
from meta_agent.protocols import VerdictKind
from meta_agent.steps.collect import collect, read
from meta_agent.steps.confirm import confirm
from meta_agent.steps.finish import open_vault
from meta_agent.steps.learn import conclude
from meta_agent.steps.merge import merge
from meta_agent.steps.opening import first_version, open_run
from meta_agent.steps.propose import propose
from meta_agent.steps.run import Run, Version
from meta_agent.steps.test import screen, test
from meta_agent.view import Display, RunState, reduce


def evolve(config: RunConfig, display: Display) -> RunState:
    """Runs, or resumes, what `config` describes; a run that is done is only read."""
    with open_run(config, display) as run:
        if not run.finished:
            first = last = first_version(run)
            earlier: Evidence | None = None
            for generation in range(config.generations):
                last, earlier = _generation(run, last, generation, earlier)
            open_vault(run, first, last)
            run.finish()
        return reduce(run.ledger, run.id)


class Ended(NamedTuple):
    """The version to go on from, and what was read of its parent."""

    version: Version
    evidence: Evidence


def _generation(run: Run, version: Version, generation: int, earlier: Evidence | None) -> Ended:
    collected = collect(run, version)
    reading = read(run, collected, generation, earlier)
    candidates = propose(run, collected, reading, generation)
    tested = {c.id: test(run, collected, c) for c in candidates}
    screened = screen(run, collected, list(tested.values()))

    for candidate in candidates:
        if candidate.id in screened.judged:
            conclude(run, candidate, screened.judged[candidate.id], reading)

    promoted: Version | None = None
    for candidate in (tested[cid].candidate for cid in screened.kept):
        judged = confirm(run, collected, tested[candidate.id])
        if judged.verdict.kind is VerdictKind.PROMOTE and promoted is None:
            promoted = merge(run, collected, tested[candidate.id])
        conclude(run, candidate, judged, reading)
    return Ended(promoted or version, reading.evidence)
