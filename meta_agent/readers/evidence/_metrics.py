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
    """The explanation of metrics that `pattern` matches, with advice and a command for alerts."""

    pattern: str
    what: str
    then: str = ""
    command: str = ""


class Basis(NamedTuple):
    """The unit that a metric is a share of, such as calls, and the rollout fields it needs."""

    unit: str
    needs: tuple[str, ...]


class Threshold(NamedTuple):
    """A limit on all metrics whose full name matches `pattern`: beyond it, an alert is raised."""

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
BASES: Final = {
    pattern: Basis(unit, tuple(needs)) for pattern, (unit, *needs) in _TABLES["basis"].items()
}
UNITS: Final[Mapping[str, str]] = _TABLES["unit"]
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
    """Returns the explanation of a metric by its full name; an empty one if there is none."""
    return next((row for row in MEANINGS if re.fullmatch(row.pattern, name)), Meaning("", ""))


@cache
def basis_of(name: str) -> Basis:
    """Returns the unit that a metric (full name) is a share of, and the rollout fields it needs."""
    return next(basis for pattern, basis in BASES.items() if re.fullmatch(pattern, name))


def rests_on(name: str) -> tuple[str, ...]:
    """Returns the rollout fields that a metric needs, by its full name."""
    return basis_of(name).needs


def threshold_alerts(metrics: Mapping[str, float]) -> list[Alert]:
    """Returns an alert for each metric beyond its limit, in the order of the table of limits."""
    alerts = []
    for row in THRESHOLDS:
        names = [name for name in sorted(metrics) if re.fullmatch(row.pattern, name)]
        alerts += [alert for name in names if (alert := _alert(row, name, metrics[name]))]
    return alerts


def _alert(row: Threshold, name: str, value: float) -> Alert | None:
    sign = 1 if row.side == "above" else -1
    limits: tuple[tuple[Level, float | None], ...]
    limits = (("CRITICAL", row.critical), ("WARN", row.warn))
    for level, limit in limits:
        if limit is not None and sign * (value - limit) > 0:
            message = f"{row.says}: {value:.3g} is {row.side} {limit:g}"
            return Alert(name, value, level, limit, name.partition(".")[0], message, row.source)
    return None
