"""Alerts on data of any size. Each says what it counted; a few counted things raise no alert."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from meta_agent.core.evidence import Alert

MINIMUM: Final = 10
"""How many attempts or calls an alert needs. It needs half as many groups."""


class Seen(NamedTuple):
    """What a metric is a share of: how many, and of what."""

    n: int
    unit: str

    @property
    def enough(self) -> bool:
        return self.n >= (MINIMUM // 2 if self.unit == "groups" else MINIMUM)


def counted_alerts(alerts: Iterable[Alert], seen_of: Callable[[str], Seen]) -> tuple[Alert, ...]:
    """Returns the alerts that rest on enough, each with its number and unit."""
    pairs = ((alert, seen_of(alert.metric)) for alert in alerts)
    return tuple(
        replace(alert, message=f"{alert.message} (n = {basis.n} {basis.unit})")
        for alert, basis in pairs
        if basis.enough
    )
