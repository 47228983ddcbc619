"""`no-diagnostics`: the same loop as `full`, but its proposer sees scores and nothing else.

The difference to `full` shows what the evidence below the score is worth. The gate and the records
for people are those of `full`.
"""

from __future__ import annotations

from meta_agent.core.evidence import Evidence
from meta_agent.core.loop.records import Reading
from meta_agent.strategies.full import Full

_SHOWN = ("score.", "tasks_")


class ScoresShown(Full):
    """The default search, but its proposer sees only how many tasks were solved, and not why."""

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
