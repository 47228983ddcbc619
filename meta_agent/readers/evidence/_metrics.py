"""What each metric is, what to do where it is bad, and its limits: the tables of `metrics.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

from meta_agent.core.evidence import Alert, Level


class Meaning(NamedTuple):
    """`pattern` matches a whole name; `then` and `command` are there for what can alert."""

    pattern: str
    what: str
    then: str = ""
    command: str = ""


class Threshold(NamedTuple):
    """Alert when the metric is above or below the limit. `pattern` matches a whole full name."""

    pattern: str
    side: Literal["above", "below"]
    warn: float
    critical: float | None
    says: str
    source: str = "own"


_TABLES: Final[Mapping[str, Any]] = tomllib.loads(
    files("meta_agent.readers.evidence").joinpath("metrics.toml").read_text(encoding="utf-8")
)
_SHARED: Final = {f"${name}": text for name, text in _TABLES["shared"].items()}
MEANINGS: Final = tuple(
    Meaning(name, *(_SHARED.get(text, text) for text in texts))
    for name, texts in _TABLES["metric"].items()
)
THRESHOLDS: Final = tuple(
    Threshold(
        name,
        "above" if "above" in row else "below",
        row["above"] if "above" in row else row["below"],
        row.get("critical"),
        row["says"],
        row.get("source", "own"),
    )
    for name, row in _TABLES["limit"].items()
)


def is_share(name: str) -> bool:
    """Returns True for a metric that is a share of something, by its full name."""
    return meaning_of(name).what.startswith("Share")


@cache
def meaning_of(name: str) -> Meaning:
    """Returns the row of a metric by its full name. It is empty if the table has none."""
    return next((row for row in MEANINGS if re.fullmatch(row.pattern, name)), Meaning("", ""))


def threshold_alerts(metrics: Mapping[str, float]) -> list[Alert]:
    """Returns the alerts of the table, in its order and then by name."""
    alerts = []
    for row in THRESHOLDS:
        names = [name for name in sorted(metrics) if re.fullmatch(row.pattern, name)]
        alerts += [alert for name in names if (alert := _alert(row, name, metrics[name]))]
    return alerts


def _alert(row: Threshold, name: str, value: float) -> Alert | None:
    crossed = _level(row, value)
    if crossed is None:
        return None
    level, limit = crossed
    message = f"{row.says}: {value:.3g} is {row.side} {limit:g}"
    return Alert(name, value, level, limit, name.partition(".")[0], message, row.source)


def _level(row: Threshold, value: float) -> tuple[Level, float] | None:
    sign = 1 if row.side == "above" else -1
    if row.critical is not None and sign * (value - row.critical) > 0:
        return "CRITICAL", row.critical
    return ("WARN", row.warn) if sign * (value - row.warn) > 0 else None
