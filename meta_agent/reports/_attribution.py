"""Attribution for people: what of a promotion the harness did, and what the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from meta_agent.reports._format import one_line, percent, points, visible

_CELLS: Final = (
    ("old_old", "old policy, old harness"),
    ("old_new", "old policy, new harness"),
    ("new_old", "new policy, old harness"),
    ("new_new", "new policy, new harness"),
)
_EFFECTS: Final = ("harness", "policy", "interaction")


def attribution_facts(told: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Names and values; nothing where a merge was recorded without."""
    if not told:
        return
    if failed := told.get("failed"):
        yield "attribution", f"could not be measured: {one_line(failed, 300)}"
        return
    cells, effects = told.get("cells") or {}, told.get("effects") or {}
    for name, title in _CELLS:
        if isinstance(share := cells.get(name), int | float):
            yield title, f"clean success {percent(share)}"
    for name in _EFFECTS:
        if isinstance(effect := effects.get(name), Mapping):
            yield f"of it the {name}", _interval(effect)
    if "policy" not in effects:
        yield "of it the policy", "none: the policy is frozen"
    yield "rests on", f"{told.get('n')} tasks; {visible(told.get('limit', ''))}"


def attribution_line(told: Mapping[str, Any]) -> str:
    """The effects alone, on one line."""
    if failed := told.get("failed"):
        return f"could not be measured: {one_line(failed, 200)}"
    effects = told.get("effects") or {}
    parts = [f"{name} {_interval(effects[name])}" for name in _EFFECTS if name in effects]
    return "; ".join(parts) + ("" if "policy" in effects else "; the policy is frozen")


def attribution_note(candidate: str, told: Mapping[str, Any]) -> str:
    """The git note on a merge commit."""
    lines = [f"Attribution of {visible(candidate)}, clean success"]
    lines += [f"  {name:26} {value}" for name, value in attribution_facts(told)]
    return "\n".join(lines) + "\n"


def _interval(effect: Mapping[str, Any]) -> str:
    delta, low, high = (float(effect[name]) for name in ("delta", "ci_low", "ci_high"))
    return f"{points(delta)} points [{points(low)}, {points(high)}]"
