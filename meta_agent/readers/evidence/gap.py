"""The diagnostic gap: the score changed, and no other metric changed with it.

EvoTrainer's outer loop starts here. If a version's score changes beyond noise while its signal and
behaviour metrics do not, it needs a new diagnostic, not a new reward.

Not covered: cause. A metric that changed too is a lead; only an experiment can show that it caused
the change.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Final

from meta_agent.core.evidence import Evidence
from meta_agent.core.protocols import JSON
from meta_agent.readers.evidence._metrics import metric_of

SCORE_Z: Final = 2.0
METRIC_MOVE: Final = 0.10  # relative, and at least 0.02 in absolute terms
_FLOOR: Final = 0.02


@dataclass(frozen=True, slots=True)
class Gap:
    """A change of clean success beyond noise, and the metrics that changed with it.

    `delta` is a share, `z` its z-score. The metric with the largest relative change comes first.
    """

    delta: float
    z: float
    explained_by: tuple[tuple[str, float], ...]

    @property
    def unexplained(self) -> bool:
        """Returns True if no other metric changed with clean success."""
        return not self.explained_by

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "unexplained": self.unexplained}


def gap(evidence: Evidence, baseline: Evidence | None) -> Gap | None:
    """Returns the change of clean success against the baseline, with the metrics that changed.

    Returns None without a comparable baseline, or if the change is within noise.
    """
    if baseline is None or evidence.comparability != "comparable":
        return None
    if not (evidence.score.get("n") and baseline.score.get("n")):
        return None
    now, before = evidence.score, baseline.score
    delta = now["clean_success"] - before["clean_success"]
    pooled = (now["n_clean"] + before["n_clean"]) / (now["n"] + before["n"])
    variance = pooled * (1 - pooled) * (1 / now["n"] + 1 / before["n"])
    z = delta / math.sqrt(variance) if variance > 0 else 0.0
    return None if abs(z) < SCORE_Z else Gap(delta, z, _moved(evidence, baseline))


def _moved(evidence: Evidence, base: Evidence) -> tuple[tuple[str, float], ...]:
    moves = []
    for name, before in base.metrics().items():
        now = evidence.metric(name)
        if name.startswith("score.") or metric_of(name).restates or now is None:
            continue
        size = max(abs(before), abs(now))
        if abs(now - before) > max(_FLOOR, METRIC_MOVE * size):
            moves.append((name, (now - before) / size))
    return tuple(sorted(moves, key=lambda move: (-abs(move[1]), move[0])))
