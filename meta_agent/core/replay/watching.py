"""Two sets of diagnostics over the same stored rollouts: what is new, gone, or says something else.

A diagnostic raises an alarm where its own threshold says so. Run over the *clean* attempts alone it
should raise none: each alarm there is a false one on labelled good rollouts. Whether a diagnostic
is worth having is not answered here: that takes good and bad past versions (`steps.discriminate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from meta_agent.core.harness import Measurement
from meta_agent.core.protocols import JSON
from meta_agent.core.replay._lines import slim

ENOUGH_CLEAN: Final = 8
"""Fewer clean attempts say nothing about false alarms."""
Lines = Callable[[], Iterable[bytes]]


class Watcher(Protocol):
    """The part of `HarnessSession` that this needs."""

    def measure_lines(self, lines: Iterable[bytes]) -> list[Measurement]: ...


class Reading(NamedTuple):
    """One value of one diagnostic, under both sets. None: that set does not have it."""

    diagnostic: str
    value: str
    before: float | None
    after: float | None
    alarm_before: bool
    alarm_after: bool
    false_alarm: bool | None
    """The changed set raises it on clean attempts alone; None: too few, or no such value."""
    failure: str | None = None

    def to_json(self) -> dict[str, JSON]:
        return self._asdict()


def compare_diagnostics(base: Watcher, changed: Watcher, lines: Lines) -> list[Reading]:
    """Runs both sets over `lines()`, and the changed one over the clean ones alone."""
    before, after = (_by_name(side.measure_lines(lines())) for side in (base, changed))
    clean = sum(1 for _ in _clean(lines()))
    good = _by_name(changed.measure_lines(_clean(lines()))) if clean >= ENOUGH_CLEAN else {}
    names = dict.fromkeys((*before, *after))
    return [row for name in names for row in _rows(name, before, after, good)]


def _clean(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line for line in lines if slim(line).clean)


def _by_name(measurements: Sequence[Measurement]) -> dict[str, Measurement]:
    return {measurement.name: measurement for measurement in measurements}


def _rows(
    name: str,
    before: Mapping[str, Measurement],
    after: Mapping[str, Measurement],
    good: Mapping[str, Measurement],
) -> Iterator[Reading]:
    old, new, on_clean = before.get(name), after.get(name), good.get(name)
    if new is not None and new.failure:
        yield Reading(name, "", None, None, False, False, None, new.failure)
        return
    for value in dict.fromkeys((*(old.values if old else ()), *(new.values if new else ()))):
        yield Reading(
            name,
            value,
            old.values.get(value) if old else None,
            new.values.get(value) if new else None,
            _alarms(old, value),
            _alarms(new, value),
            _alarms(on_clean, value) if on_clean and value in on_clean.values else None,
        )


def _alarms(measurement: Measurement | None, value: str) -> bool:
    """Whether a value is on the wrong side of the limit that its diagnostic declares."""
    declared = measurement.thresholds.get(value) if measurement else None
    if measurement is None or not isinstance(declared, Mapping) or value not in measurement.values:
        return False
    limit, side = declared.get("warn"), declared.get("direction")
    if not isinstance(limit, int | float):  # untrusted, and optional
        return False
    reading = measurement.values[value]
    return reading > limit if side == "above" else reading < limit if side == "below" else False
