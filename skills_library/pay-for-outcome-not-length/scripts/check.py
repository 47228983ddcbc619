"""Says whether rollouts show what this skill is about: any that `meta-agent report` reads.

WATCHED names metrics of that report, with the limit at which the skill speaks. Reads by the
meta-agent that this Python has; standard library beside it.

Exit status: 0 all of it was looked at and nothing shows, 1 it shows, 2 usage, 3 it could not be
looked at, and why. What a report does not hold, or holds of too few attempts, is never all clear.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

WATCHED: list[dict[str, Any]] = [
    {
        "metric": "shape\\.reward_chars_corr_within",
        "side": "above",
        "limit": 0.3,
        "needs": ["messages", "rewards"],
        "least": 10,
        "silent": False,
    },
    {
        "metric": "shape\\.reward_chars_corr_within",
        "side": "below",
        "limit": -0.3,
        "needs": ["messages", "rewards"],
        "least": 10,
        "silent": False,
    },
]
"""Rows of metric (a pattern), side, limit, needs (fields of the data), least (attempts), and
silent: whether a report leaves the metric out where it is 0."""
BESIDE: list[str] = [
    "shape.reward_chars_corr",
    "shape.chars_mean",
    "signal.reward_turns_corr_within",
    "score.success",
]
"""Metrics that say more where it shows."""


def read(options: argparse.Namespace, folder: Path) -> dict[str, Any] | str:
    """The report as JSON, or why there is none."""
    try:
        from meta_agent.config import pairs_of
        from meta_agent.errors import MetaAgentError
        from meta_agent.evidence import read_foreign
        from meta_agent.rollouts.exchange import judged, read_rollouts, write_mapped
    except ImportError:
        return "this Python has no meta-agent: pip install meta-agent"
    try:
        files = options.files
        if options.map:
            names = pairs_of(options.map)
            outs = [folder / str(n) / f"{file.stem}.jsonl" for n, file in enumerate(files)]
            files = [write_mapped(f, names, out) for f, out in zip(files, outs, strict=True)]
        return read_foreign(judged(read_rollouts(*files), options.solved_at)).to_json()
    except (MetaAgentError, ValueError, OSError) as error:
        return str(error)


def metrics(report: dict[str, Any]) -> dict[str, float]:
    """Every number of a report by its full name."""
    layers = {**report["evidence"]["layers"], "shape": report["shape"]}
    return {f"{name}.{k}": v for name, layer in layers.items() for k, v in layer.items()}


def look(row: dict[str, Any], report: dict[str, Any]) -> tuple[dict[str, float], str]:
    """What shows of one watched row, and why the rest could not be looked at."""
    known = metrics(report)
    seen = {name: value for name, value in known.items() if re.fullmatch(row["metric"], name)}
    groups = row["metric"].startswith("signal.") and "signal.groups" in known
    n, unit = (known["signal.groups"], "groups") if groups else (report["rollouts"], "attempts")
    if n < row["least"]:
        return {}, f"{row['metric']}: {n:g} {unit}, fewer than {row['least']}"
    shows = {name: value for name, value in seen.items() if beyond(value, row)}
    missing = [name for name in row["needs"] if report["known"].get(name, 0) < report["rollouts"]]
    if row["limit"] is None:
        return {}, f"{row['metric']}: {seen or 'unknown'}; no limit says how much is too much"
    if missing:
        told = ", ".join(f"{name} in {report['known'].get(name, 0)}" for name in missing)
        return shows, f"{row['metric']}: {told} of {report['rollouts']} attempts"
    if not seen and not row["silent"]:
        return {}, f"{row['metric']}: the report on these rollouts has no such number"
    return shows, ""


def beyond(value: float, row: dict[str, Any]) -> bool:
    """Whether a value is on the far side of its limit, or at a limit other than 0."""
    limit = row["limit"]
    if limit is None or (value == limit == 0):
        return False
    return bool(value >= limit if row["side"] == "above" else value <= limit)


def checked(report: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The exit status and what is printed."""
    shows: dict[str, float] = {}
    cannot: list[str] = []
    for row in WATCHED:
        found, why = look(row, report)
        shows |= found
        cannot += [why] if why else []
    status = 1 if shows else 3 if cannot or not WATCHED else 0
    words = {0: "it does not show", 1: "it shows", 3: "it could not be looked at"}
    known = metrics(report)
    beside = {name: known[name] for name in BESIDE if name in known}
    told = {"answer": words[status], "rollouts": report["rollouts"], "shows": shows}
    return status, {**told, "not_looked_at": cannot, "beside": beside if shows else {}}


def main(argv: list[str] | None = None) -> int:
    """Reads the report on some rollouts and prints one JSON object."""
    parser = argparse.ArgumentParser(description="Look for what this skill is about in rollouts.")
    parser.add_argument("files", nargs="+", type=Path, help="rollouts, of any known form")
    parser.add_argument("--map", help="fields, as in meta-agent report --map")
    parser.add_argument("--solved-at", type=float, help="rewards of at least this mean solved")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        report = read(options, Path(folder))
    if isinstance(report, str):
        status, told = 3, {"answer": "it could not be looked at", "not_looked_at": [report]}
    else:
        status, told = checked(report)
    print(json.dumps(told, indent=2))
    return status


if __name__ == "__main__":
    sys.exit(main())
