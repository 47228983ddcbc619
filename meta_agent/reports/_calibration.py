"""What a calibration found, in sentences: luck, errors of the gate, what can be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from meta_agent.reports._format import percent


def lines(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and sentence, one for each thing that was found."""
    lost = f"; {told['tasks_lost']} lost in some run" if told["tasks_lost"] else ""
    yield (
        "measured",
        f"{told['runs']} {told['unit']} of {told['harness_commit'][:10]} against each other, "
        f"{told['tasks']} confirm tasks{lost}",
    )
    yield "spread", _spread(told["spread"])
    yield "false promotions", _false_promotions(told)
    yield "detectable effect", _smallest(told["smallest_effect"])
    if told["wanted"]:
        yield "wanted", _wanted(told["wanted"])
    yield "simulated from", str(told["simulated_from"])


def _spread(told: Mapping[str, Any]) -> str:
    total, low, high, seed = (100 * told[name] for name in ("total", "low", "high", "seed"))
    said = (
        f"clean success {percent(told['mean'])}; between {told['between']} {total:.1f} points "
        f"[{low:.1f}, {high:.1f}]"
    )
    if told["between"] == "samples":
        return said
    return f"{said}, {seed:.1f} of them not explained by the luck of single attempts"


def _false_promotions(told: Mapping[str, Any]) -> str:
    seen, candidates = told["false_promotions"], told["candidates"]
    return (
        f"{percent(seen['share'])} [{100 * seen['low']:.1f}, {100 * seen['high']:.1f}] of "
        f"{seen['cases']} simulated runs of {candidates} candidate{'s' * (candidates != 1)} that "
        f"change nothing; declared: at most {percent(seen['declared'])}"
    )


def _smallest(told: Mapping[str, Any]) -> str:
    power = f"{100 * told['power']:.0f} % probability"
    if told["effect"] is None:
        return f"this budget finds no gain with {power}"
    low, high = (_end(told[name]) for name in ("low", "high"))
    return (
        f"{100 * told['effect']:.1f} points [{low}, {high}] are found with {power}; evolve with "
        "this budget makes no claim about smaller gains"
    )


def _end(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f}"


def _wanted(told: Mapping[str, Any]) -> str:
    now = told["power_now"]
    has = told.get("has") or {}
    needs = " or ".join(_need(unit, count, has.get(unit)) for unit, count in told["needs"].items())
    return (
        f"{100 * told['effect']:.1f} points are found with {percent(now['share'])} "
        f"[{100 * now['low']:.0f}, {100 * now['high']:.0f}] now; for 80 %: {needs}"
    )


def _need(unit: str, count: int | None, has: int | None) -> str:
    now = "" if has is None else f" (this budget has {has})"
    return f"more {unit} than were tried{now}" if count is None else f"{count} {unit}{now}"
