"""What a run claims, and what it does not: figures over training runs, and gains it cannot see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from meta_agent.reports._calibration import lines
from meta_agent.reports._format import points, visible
from meta_agent.reports.state import RunState


def claim_facts(state: RunState) -> Iterator[tuple[str, str]]:
    """Names and sentences for a reader; older runs recorded none of these."""
    if (state.calibration or {}).get("schema_version") == 1:
        yield from lines(state.calibration or {})
    if told := _over_runs(state.results):
        yield "over runs", told
    if told := _lead(state.lead):
        yield "lead", told
    if words := (state.visible or {}).get("words"):
        yield "detectable", visible(words)
    if told := _no_claim(state):
        yield "no claim", told
    if state.analyses and (nothing := state.analyses[-1].nothing):
        generation = state.analyses[-1].generation
        yield "search", f"generation {generation} found nothing to try: {visible(nothing)}"


def _lead(told: Mapping[str, Any] | None) -> str:
    """What has joined the lead, which is never called proven."""
    members = (told or {}).get("members")
    if not isinstance(members, list) or not members:
        return ""
    names = ", ".join(visible(str(name).split("/", 1)[-1]) for name in members)
    effect = (told or {}).get("effect")
    seen = ""
    if isinstance(effect, list) and len(effect) == 3:
        low, high = points(effect[1]), points(effect[2])
        seen = f", together {points(effect[0])} points [{low}, {high}] against main"
        if isinstance(likelier := (told or {}).get("likelier"), int | float):
            seen += f" on the tasks they were chosen on (likelier {points(likelier)})"
    return f"unproven, not in main: {names}{seen}"


def _over_runs(told: Mapping[str, Any] | None) -> str:
    before, after = (_figures((told or {}).get(side)) for side in ("before", "after"))
    if not before:
        return ""
    seeds = (told or {}).get("seeds") or ()
    count = len(seeds)
    one = "one policy, over tasks alone" + (f" (training seed {seeds[0]})" if seeds else "")
    runs = f"{count} training seeds" if count > 1 else one
    if count > 1 and 0 not in seeds:  # those of the claim: fresh ones would cost trainings
        runs += ", those of the claim, so only the tasks are new"
    if not after:
        return f"before {before}; {runs}"
    parts = [f"before {before}, after {after}"]
    if gain := _figure((told or {}).get("difference")):
        parts.append(f"mean difference {points(gain[0])} [{points(gain[1])}, {points(gain[2])}]")
    if count > 1 and (chance := _figure((told or {}).get("improvement"))):
        middle, low, high = (f"{share:.2f}" for share in chance)
        parts.append(f"a run after beats one before with probability {middle} [{low}, {high}]")
    return "; ".join((*parts, f"{runs}, 95 % intervals"))


def _figures(side: Any) -> str:
    """`mean 61.3 % [57.0, 65.5], IQM 61.9 % [57.2, 66.0]`."""
    if not isinstance(side, dict):
        return ""
    found = {name: _figure(side.get(key)) for name, key in (("mean", "mean"), ("IQM", "iqm"))}
    told = {name: _shares(figure) for name, figure in found.items() if figure}
    if len(side.get("runs") or ()) < 2:
        told.pop("IQM", None)  # of one run it is the mean
    return ", ".join(f"{name} {text}" for name, text in told.items())


def _shares(figure: tuple[float, float, float]) -> str:
    middle, low, high = (f"{100 * share:.1f}" for share in figure)
    return f"{middle} % [{low}, {high}]"


def _figure(value: Any) -> tuple[float, float, float] | None:
    if not isinstance(value, dict):
        return None
    found = [value.get(name) for name in ("value", "low", "high")]
    numbers = [float(one) for one in found if isinstance(one, int | float)]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _no_claim(state: RunState) -> str:
    """Where the change on the vault is smaller than what the budget can see."""
    least = (state.visible or {}).get("effect")
    shares = [one.clean_success for one in (state.baseline, state.final) if one]
    if len(shares) < 2 or None in shares or not isinstance(least, int | float):
        return ""
    change = float(shares[1] or 0) - float(shares[0] or 0)
    if abs(change) >= least or not change:
        return ""
    return (
        f"the change on the vault, {points(change)} points, is smaller than the "
        f"{100 * least:.1f} that this budget can see"
    )
