"""What a clean harness shows: ranges of metrics, measured, by suite and by whether it had trained.

A number is odd where it lies beyond what the competent harness of the same suite shows with the
same policy. `benchmarks/reference.py` measures the ranges over several seeds and writes
`reference.json`; nothing in it is a fault, or written by hand. Where a suite has none (anybody's
own tasks) every metric is taken as it is.

Not covered: another policy than the suite's warm start, or a training of another length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final

from meta_agent.core.evidence import Alert
from meta_agent.core.protocols import JSON

FILE: Final = "reference.json"
_ROOM: Final = 0.02
_FLOOR: Final = 0.01


@dataclass(frozen=True, slots=True)
class Reference:
    """The metric ranges of a fault-free harness (the reference) on one suite."""

    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rules: Mapping[str, float] = field(default_factory=dict)
    """How strongly each rule suggests an edit of the fault-free harness."""
    alerts: Mapping[str, float] = field(default_factory=dict)
    """The values of the alerts that rules raise on the fault-free harness."""

    @property
    def is_measured(self) -> bool:
        """Returns True if the reference harness was measured on the suite."""
        return bool(self.ranges)

    def above(self, name: str, value: float) -> float:
        """Returns by how much a value exceeds its metric's range (0 to 0 if unmeasured), or 0."""
        return max(0.0, value - self._wide(name)[1])

    def below(self, name: str, value: float, default: float) -> float:
        """Returns by how much a value is below its range (if unmeasured: `default`), or 0."""
        return max(0.0, (self._wide(name)[0] if name in self.ranges else default) - value)

    def low(self, name: str) -> float:
        """Returns the lower end of a metric's range, or 0 if it was not measured."""
        return self.ranges.get(name, (0.0, 0.0))[0]

    def beyond(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns those of `metrics` that lie outside the reference's ranges, or have no range."""
        wide = {name: self._wide(name) for name in metrics}
        return {
            name: value
            for name, value in metrics.items()
            if name not in self.ranges or not wide[name][0] <= value <= wide[name][1]
        }

    def raises(self, alert: Alert) -> bool:
        """Returns True if the reference harness raises the same alert, with as large a value."""
        far = self.alerts.get(alert.metric)
        return far is not None and abs(alert.value) <= abs(far) * (1 + 5 * _ROOM)

    def _wide(self, name: str) -> tuple[float, float]:
        """Returns the range with room on either side for seeds that were not measured."""
        if name not in self.ranges:
            return 0.0, 0.0
        low, high = self.ranges[name]
        room = max(_FLOOR, _ROOM * max(abs(low), abs(high)), high - low)
        return low - room, high + room


def reference_of(domain: str, *, trained: bool) -> Reference:
    """Returns the metric ranges of the suite `domain`, which are empty if none were measured."""
    stored = _stored().get(domain, {}).get("trained" if trained else "untrained")
    if not stored:
        return Reference()
    ranges = {name: (low, high) for name, (low, high) in stored["ranges"].items()}
    return Reference(ranges, stored["rules"], stored["alerts"])


def forget() -> None:
    """Clears the cache of the reference file, so that the next call reads it again."""
    _stored.cache_clear()


@cache
def _stored() -> JSON:
    path = files("meta_agent.readers.evidence").joinpath(FILE)
    return json.loads(path.read_text()) if path.is_file() else {}
