"""Looks in a report on rollouts for the metrics that a skill watches: `scripts/check.py` calls it.

What a skill watches stands in its SKILL.md as data: `meta-agent.watches` holds `METRIC SIDE LIMIT`,
separated by semicolons, and `meta-agent.beside` names further metrics that are printed where one of
them shows. `*` stands for one part of a metric's name: `shape.suspect.*`.

Not covered: numbers that only our own runs have (`signal.train`, `measured`); a check of those says
that it could not look.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import MetaAgentError
from meta_agent.core.skills import Skill
from meta_agent.readers.evidence import metric_of
from meta_agent.readers.foreign import MINIMUM, read_foreign
from meta_agent.readers.formats import judged, read_rollouts

_ABSENT_IF_ZERO: Final = ("behaviour.leak", "behaviour.tamper", "behaviour.flag", "shape.suspect.")
"""Where the names of metrics begin that a report leaves out if they are 0."""
_ONLY_OURS: Final = ("signal.train.", "signal.filter.", "signal.curriculum.", "measured.")
_WORDS: Final = {0: "it does not show", 1: "it shows", 3: "it could not be looked at"}


@dataclass(frozen=True, slots=True)
class Watch:
    """A metric that a skill watches: it shows where the value is beyond `limit` on `side`."""

    metric: str
    side: str  # "above" or "below"
    limit: float | None  # None: no limit is known, so it can never be looked at

    @property
    def text(self) -> str:
        """Returns the watch as it stands in a SKILL.md."""
        return f"{self.metric} {self.side} {'none' if self.limit is None else f'{self.limit:.12g}'}"

    @property
    def needs(self) -> tuple[str, ...]:
        """Returns the fields of a rollout that the metric is made of."""
        return () if self.metric.startswith(_ONLY_OURS) else metric_of(self.metric).needs

    def is_beyond(self, value: float) -> bool:
        """Returns True if a value is at or beyond the limit; False if both are 0."""
        if self.limit is None or (value == self.limit == 0):
            return False
        return value >= self.limit if self.side == "above" else value <= self.limit

    def fits(self, name: str) -> bool:
        """Returns True if the full name of a metric is this one's, where `*` fits one part."""
        parts, pattern = name.split("."), self.metric.split(".")
        if len(parts) != len(pattern):
            return False
        return all(expected in (part, "*") for part, expected in zip(parts, pattern, strict=True))


def watches_of(skill: Skill) -> list[Watch]:
    """Returns what a skill watches; [] if its SKILL.md says nothing, or nothing that can be read.

    One entry that cannot be read makes all of them unreadable: half a check is no all clear.
    """
    watches = [_watch(entry.split()) for entry in skill.get("watches").split(";") if entry.strip()]
    return [] if None in watches else [watch for watch in watches if watch is not None]


def _watch(words: Sequence[str]) -> Watch | None:
    if len(words) != 3 or words[1] not in ("above", "below"):
        return None
    try:
        limit = None if words[2] == "none" else float(words[2])
    except ValueError:
        return None
    return Watch(words[0], words[1], limit) if limit is None or math.isfinite(limit) else None


def metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """Returns every metric of a report on rollouts by its full name, such as `signal.groups`."""
    layers = {**report["evidence"]["layers"], "shape": report["shape"]}
    return {f"{name}.{k}": v for name, layer in layers.items() for k, v in layer.items()}


def look(watch: Watch, report: Mapping[str, Any]) -> tuple[dict[str, float], str]:
    """Returns the metrics that show, by name, and why they cannot be looked at, or ""."""
    values = metrics(report)
    matching = {name: value for name, value in values.items() if watch.fits(name)}
    of_groups = watch.metric.startswith("signal.")
    n, unit, least = report["rollouts"], "attempts", MINIMUM
    if of_groups:
        least = MINIMUM // 2
        n, unit = (values["signal.groups"], "groups") if "signal.groups" in values else (n, unit)
    if n < least:
        return {}, f"{watch.metric}: {n:g} {unit}, fewer than {least}"
    shows = {name: value for name, value in matching.items() if watch.is_beyond(value)}
    missing = [name for name in watch.needs if report["known"].get(name, 0) < report["rollouts"]]
    if watch.limit is None:
        return {}, f"{watch.metric}: {matching or 'unknown'}; no limit says how much is too much"
    if missing:
        counts = ", ".join(f"{name} in {report['known'].get(name, 0)}" for name in missing)
        return shows, f"{watch.metric}: {counts} of {report['rollouts']} attempts"
    if not matching and not (watch.needs and watch.metric.startswith(_ABSENT_IF_ZERO)):
        return {}, f"{watch.metric}: the report on these rollouts has no such number"
    return shows, ""


def checked(skill: Skill, report: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Returns the exit status of a skill's check, and the JSON document that it prints.

    The status is 1 if a watched metric is beyond its limit, else 3 if one could not be checked
    (missing, or too few attempts), else 0.
    """
    shows: dict[str, float] = {}
    cannot: list[str] = []
    watches = watches_of(skill)
    for watch in watches:
        matches, why = look(watch, report)
        shows |= matches
        cannot += [why] if why else []
    status = 1 if shows else 3 if cannot or not watches else 0
    values, beside = metrics(report), skill.get("beside").split()
    more = {name: values[name] for name in beside if name in values}
    document = {"answer": _WORDS[status], "rollouts": report["rollouts"], "shows": shows}
    return status, {**document, "not_looked_at": cannot, "beside": more if shows else {}}


def main(skill: Skill | None, argv: Sequence[str] | None = None) -> int:
    """Checks the rollouts that a command line names for what a skill watches.

    Prints a JSON object and returns the status. 1: a watched metric is beyond its limit; 3: not all
    could be checked, or there is no skill; 0: neither.
    """
    parser = argparse.ArgumentParser(description="Look for what this skill is about in rollouts.")
    parser.add_argument("files", nargs="+", type=Path, help="rollouts, of any known form")
    parser.add_argument("--map", help="fields, as in meta-agent report --map")
    parser.add_argument("--solved-at", type=float, help="rewards of at least this mean solved")
    options = parser.parse_args(argv)
    try:
        rollouts = read_rollouts(*options.files, fields=options.map)
        report = read_foreign(judged(rollouts, options.solved_at))
        if skill is None:
            raise ValueError("the skill's SKILL.md cannot be read; restore it")
        status, document = checked(skill, report.to_json())
    except (MetaAgentError, ValueError, OSError) as error:
        status, document = 3, {"answer": _WORDS[3], "not_looked_at": [str(error)]}
    print(json.dumps(document, indent=2))
    return status
