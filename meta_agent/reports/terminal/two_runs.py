"""`compare RUN RUN`: two recorded runs side by side, and which of their settings differ.

Does not cover: whether they differ by more than luck. One run a side cannot say; paired seeds can
(`compare --conditions ... --seeds N`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from meta_agent.core.protocols import JSON
from meta_agent.reports._format import (
    dollars,
    duration,
    effect_text,
    measured_text,
    points,
    value_text,
    visible,
)
from meta_agent.reports._parts import parse_effect
from meta_agent.reports._sentences import sentences
from meta_agent.reports.state import RunState
from meta_agent.reports.terminal._tables import listed
from meta_agent.reports.terminal.text import state_word

_OWN = frozenset({"origin", "workspace"})


def document(first: RunState, second: RunState) -> dict[str, JSON]:
    """Both runs whole, and the settings in which they differ."""
    both = [first.to_json(), second.to_json()]
    return {"schema_version": 1, "runs": both, "settings": dict(_differing(first, second))}


def table(first: RunState, second: RunState) -> RenderableType:
    """A line a fact; the settings that differ come last."""
    rows = [(name, *map(str, pair)) for name, pair in _facts(first, second)]
    settings = _differing(first, second)
    rows += [(name, *map(value_text, pair)) for name, pair in settings]
    made = listed(
        ("", visible(first.run), visible(second.run)), (map(visible, row) for row in rows)
    )
    gains = [_gain(one) for one in (first, second)]
    if None in gains:
        return made
    told = f"gain on the vault: {points(gains[1] - gains[0])} points in the second"  # type: ignore[operator]
    luck = (
        "one run a side: luck is not ruled out; "
        "meta-agent compare --conditions ... --seeds N does that"
    )
    return Group(made, Text(), Text(told), Text(luck, style="dim"))


def _facts(first: RunState, second: RunState) -> Iterator[tuple[str, tuple[str, str]]]:
    both = (first, second)

    def each(tell: Any) -> tuple[str, str]:
        return tell(first), tell(second)

    yield "state", each(state_word)
    yield "what happened", each(lambda one: sentences(one)[0].words)
    yield "vault, before", each(lambda one: measured_text(one.baseline))
    yield "vault, after", each(lambda one: measured_text(one.final))
    for kind in dict.fromkeys(kind for one in both for kind in one.claims):
        yield f"this {kind}", each(lambda one, kind=kind: _claim(one, kind))
    yield "ideas", each(_ideas)
    yield "attempts", each(lambda one: f"{one.rollouts:,}")
    yield "training steps", each(lambda one: f"{one.train_steps:,}")
    yield "time", each(lambda one: duration(one.wall_sec))
    yield "API spend", each(lambda one: dollars(one.usd))


def _claim(one: RunState, kind: str) -> str:
    verdict = one.claims.get(kind) or {}
    return f"{verdict.get('kind', '–')} {effect_text(parse_effect(verdict.get('effect')))}"


def _ideas(one: RunState) -> str:
    kinds = [candidate.kind for candidate in one.candidates.values()]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "none"


def _gain(one: RunState) -> float | None:
    before, after = (m.clean_success if m else None for m in (one.baseline, one.final))
    return None if before is None or after is None else after - before


def _differing(first: RunState, second: RunState) -> list[tuple[str, list[JSON]]]:
    names = dict.fromkeys((*first.config, *second.config))
    pairs = ((name, [first.config.get(name), second.config.get(name)]) for name in names)
    return [(name, pair) for name, pair in pairs if name not in _OWN and pair[0] != pair[1]]
