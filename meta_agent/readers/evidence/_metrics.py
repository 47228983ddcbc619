"""What each metric is, what it is a share of, and its limits: the table in `metrics.toml`."""

from __future__ import annotations

import re
import tomllib
from collections import ChainMap
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

from meta_agent.core.evidence import Alert, Level

_TABLE: Final[Mapping[str, Any]] = tomllib.loads(
    files("meta_agent.readers.evidence").joinpath("metrics.toml").read_text(encoding="utf-8")
)
_SHARED: Final = {f"${name}": text for name, text in _TABLE["shared"].items()}
ROWS: Final[Mapping[str, Mapping[str, Any]]] = {
    pattern: ChainMap(*row) if isinstance(row, list) else row
    for pattern, row in _TABLE["metric"].items()
}
"""The fields of metrics, by the pattern of their full names."""


class Metric(NamedTuple):
    """All that the table says of one metric. An unknown metric has no text and no limit."""

    says: str = ""
    unit: str = ""
    needs: tuple[str, ...] = ()
    above: float | None = None
    below: float | None = None
    critical: float | None = None
    alert: str = ""
    source: str = "own"
    then: str = ""
    command: str = ""
    restates: bool = False

    @property
    def side(self) -> Literal["above", "below"]:
        """Returns on which side of the limit a value is bad."""
        return "below" if self.above is None else "above"

    @property
    def limit(self) -> float | None:
        """Returns the value beyond which an alert is raised, or None if none ever is."""
        return self.below if self.above is None else self.above

    @property
    def is_share(self) -> bool:
        return self.says.startswith("Share")


@cache
def metric_of(name: str) -> Metric:
    """Returns what the table says of a metric, by its full name."""
    row: dict[str, Any] = {}
    for pattern, fields_of_row in ROWS.items():
        if re.fullmatch(pattern, name):
            row = {**fields_of_row, **row}
    fields = {field: _SHARED.get(value, value) for field, value in row.items() if field != "needs"}
    return Metric(needs=tuple(row.get("needs", ())), **fields)


def limit_alerts(metrics: Mapping[str, float]) -> list[Alert]:
    """Returns an alert for each metric beyond its limit, in the order of the table."""
    names = [
        name
        for pattern, row in ROWS.items()
        if "alert" in row
        for name in sorted(metrics)
        if re.fullmatch(pattern, name)
    ]
    return [alert for name in names if (alert := _alert(name, metrics[name]))]


def _alert(name: str, value: float) -> Alert | None:
    metric = metric_of(name)
    sign = 1 if metric.side == "above" else -1
    limits: tuple[tuple[Level, float | None], ...]
    limits = (("CRITICAL", metric.critical), ("WARN", metric.limit))
    for level, limit in limits:
        if limit is not None and sign * (value - limit) > 0:
            message = f"{metric.alert}: {value:.3g} is {metric.side} {limit:g}"
            return Alert(name, value, level, limit, name.partition(".")[0], message, metric.source)
    return None
