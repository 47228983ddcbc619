"""Alerts on data of any size: each says what it counted, and few things counted alert nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from meta_agent.core.evidence import Alert

MINIMUM: Final = 10
"""Of attempts or calls; of groups, which hold several attempts, half as many."""


class Seen(NamedTuple):
    """So many of something."""

    n: int
    unit: str

    @property
    def enough(self) -> bool:
        return self.n >= (MINIMUM // 2 if self.unit == "groups" else MINIMUM)


def counted_alerts(alerts: Iterable[Alert], seen_of: Callable[[str], Seen]) -> tuple[Alert, ...]:
    """Those that rest on enough, each with its n and the unit."""
    found = ((alert, seen_of(alert.metric)) for alert in alerts)
    return tuple(
        replace(alert, message=f"{alert.message} (n = {seen.n} {seen.unit})")
        for alert, seen in found
        if seen.enough
    )
