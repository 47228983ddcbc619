"""`no-diagnostics`: the loop with everything, whose proposer sees scores and nothing else.

What the layers below the score are worth is the difference to `full`: the gate is the same one, and
so is what is recorded for people.
"""

from __future__ import annotations

from meta_agent.core.evidence import Evidence
from meta_agent.core.loop.records import Reading
from meta_agent.strategies.full import Full

_SHOWN = ("score.", "tasks_")


class ScoresShown(Full):
    """The loop with a proposer that is told how much was solved, and not how."""

    def shows(self, reading: Reading) -> Reading:
        return Reading(_scores(reading.evidence), findings=(), behind=False)


def _scores(evidence: Evidence) -> Evidence:
    changes = {
        name: value
        for name, value in evidence.version.items()
        if name.removeprefix("change.").startswith(_SHOWN)
    }
    return Evidence(
        score=evidence.score,
        signal={},
        behaviour={},
        version=changes,
        alerts=tuple(alert for alert in evidence.alerts if alert.layer == "score"),
        per_task=evidence.per_task,
        evaluator_hashes=evidence.evaluator_hashes,
        tasks_hash=evidence.tasks_hash,
        comparability=evidence.comparability,
    )
