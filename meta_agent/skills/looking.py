"""Looks in a report on rollouts for the metrics that a skill watches: `scripts/check.py` calls it.

A watched row names a metric of that report (`*` stands for one part of a name: `shape.suspect.*`),
and the side and the limit at which the metric shows. It also names the fields of the data that the
metric needs, and the least number of attempts (of groups, for `signal.`). It says whether a report
leaves the metric out if it is 0.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_agent.core.errors import MetaAgentError
from meta_agent.readers.foreign import read_foreign
from meta_agent.readers.formats import judged, read_rollouts


def metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """Returns every metric of a report on rollouts by its full name, such as `signal.groups`."""
    layers = {**report["evidence"]["layers"], "shape": report["shape"]}
    return {f"{name}.{k}": v for name, layer in layers.items() for k, v in layer.items()}


def look(row: Mapping[str, Any], report: Mapping[str, Any]) -> tuple[dict[str, float], str]:
    """Returns metrics beyond a check-script row's limit, and why it cannot be checked, or ""."""
    values = metrics(report)
    matching = {
        name: value for name, value in values.items() if metric_matches(name, row["metric"])
    }
    groups = row["metric"].startswith("signal.") and "signal.groups" in values
    n, unit = (values["signal.groups"], "groups") if groups else (report["rollouts"], "attempts")
    if n < row["least"]:
        return {}, f"{row['metric']}: {n:g} {unit}, fewer than {row['least']}"
    shows = {name: value for name, value in matching.items() if beyond(value, row)}
    missing = [name for name in row["needs"] if report["known"].get(name, 0) < report["rollouts"]]
    if row["limit"] is None:
        return {}, f"{row['metric']}: {matching or 'unknown'}; no limit says how much is too much"
    if missing:
        counts = ", ".join(f"{name} in {report['known'].get(name, 0)}" for name in missing)
        return shows, f"{row['metric']}: {counts} of {report['rollouts']} attempts"
    if not matching and not row["silent"]:
        return {}, f"{row['metric']}: the report on these rollouts has no such number"
    return shows, ""


def metric_matches(name: str, metric: str) -> bool:
    """Returns True if the full name `name` fits the pattern `metric`, where `*` fits one part."""
    parts, pattern = name.split("."), metric.split(".")
    if len(parts) != len(pattern):
        return False
    return all(expected in (part, "*") for part, expected in zip(parts, pattern, strict=True))


def beyond(value: float, row: Mapping[str, Any]) -> bool:
    """Returns True if a value is at or beyond the limit of a check script's row, above or below.

    Returns False if the row has no limit, or if limit and value are 0.
    """
    limit = row["limit"]
    if limit is None or (value == limit == 0):
        return False
    return bool(value >= limit if row["side"] == "above" else value <= limit)


def checked(
    watched: Sequence[Mapping[str, Any]], beside: Sequence[str], report: Mapping[str, Any]
) -> tuple[int, dict[str, Any]]:
    """Returns the exit status of a skill's check, and the JSON document that it prints.

    The status is 1 if a watched metric is beyond its limit, else 3 if one could not be checked
    (missing, or too few attempts), else 0.
    """
    shows: dict[str, float] = {}
    cannot: list[str] = []
    for row in watched:
        matches, why = look(row, report)
        shows |= matches
        cannot += [why] if why else []
    status = 1 if shows else 3 if cannot or not watched else 0
    words = {0: "it does not show", 1: "it shows", 3: "it could not be looked at"}
    values = metrics(report)
    more = {name: values[name] for name in beside if name in values}
    document = {"answer": words[status], "rollouts": report["rollouts"], "shows": shows}
    return status, {**document, "not_looked_at": cannot, "beside": more if shows else {}}


def main(
    watched: Sequence[Mapping[str, Any]],
    beside: Sequence[str] = (),
    argv: Sequence[str] | None = None,
) -> int:
    """Checks the rollouts named on a command line, prints a JSON object, and returns the status.

    Status 1: a watched metric is beyond its limit; 3: not all could be checked; 0: neither.
    """
    parser = argparse.ArgumentParser(description="Look for what this skill is about in rollouts.")
    parser.add_argument("files", nargs="+", type=Path, help="rollouts, of any known form")
    parser.add_argument("--map", help="fields, as in meta-agent report --map")
    parser.add_argument("--solved-at", type=float, help="rewards of at least this mean solved")
    options = parser.parse_args(argv)
    try:
        rollouts = read_rollouts(*options.files, fields=options.map)
        report = read_foreign(judged(rollouts, options.solved_at))
        status, document = checked(watched, beside, report.to_json())
    except (MetaAgentError, ValueError, OSError) as error:
        status, document = 3, {"answer": "it could not be looked at", "not_looked_at": [str(error)]}
    print(json.dumps(document, indent=2))
    return status
