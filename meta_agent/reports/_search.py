"""What a search ended with, for people: both claims, and what is handed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.reports._format import measured_text, points, visible
from meta_agent.reports._parts import parse_effect
from meta_agent.reports.state import RunState

_STANDING: Final = {"proven": "proven", "unproven": "unproven", "start": "the start"}
_ABOUT: Final = {"harness": "this harness, over training seeds", "version": "this version"}


def handover_words(state: RunState) -> str:
    """The first line of a result: what is in one's hands, and what is known of it."""
    told = state.handover
    if not told:
        return ""
    standing = _STANDING.get(str(told.get("standing")), str(told.get("standing")))
    return visible(f"{standing}: {told.get('words', '')}")


def search_facts(state: RunState) -> Iterator[tuple[str, str]]:
    """Names and sentences: both claims, and the harness and weights in one's hands."""
    yield from _claims(state)
    yield from product_facts(state)


def card_facts(state: RunState) -> Iterator[tuple[str, str]]:
    """What goes with the weights, wherever they go: the verdict, and what it rests on."""
    yield "verdict", handover_words(state) or "the run has not ended: nothing is claimed"
    yield "before", f"{measured_text(state.baseline)} (clean success on the vault split)"
    yield "after", measured_text(state.final)
    yield from _claims(state)
    if words := (state.visible or {}).get("words"):
        yield "detectable", visible(words)
    made, config = state.product, state.config
    yield "run", visible(f"{state.run}: domain {state.domain}, seed {config.get('seed')}")
    yield "base", visible(config.get("policy", "?"))
    yield "harness", visible(f"commit {made['harness_commit']}: the weights were trained inside it")


def _claims(state: RunState) -> Iterator[tuple[str, str]]:
    for kind, verdict in state.claims.items():
        effect = parse_effect(verdict.get("effect"))
        seen = ""
        if effect:
            low, high = points(effect.ci_low), points(effect.ci_high)
            seen = f" {points(effect.delta)} points [{low}, {high}]{effect.selected}"
        reasons = "; ".join(map(str, verdict.get("reasons") or ()))
        about = _ABOUT.get(kind, kind)
        yield "claim", visible(f"{about}: {verdict.get('kind')}{seen}: {reasons}")


def product_facts(state: RunState) -> list[tuple[str, str]]:
    """What the run hands over, and the command for each part."""
    made = state.product
    where = f" --workspace {state.workspace}" if state.workspace else ""
    facts = []
    if made["harness_commit"]:
        adopt = f"meta-agent adopt --into CLONE{where}"
        facts.append(
            ("harness", f"{made['harness']} at {str(made['harness_commit'])[:12]} ({adopt})")
        )
    if made["weights"]:
        facts.append(("weights", f"{made['weights']} (meta-agent adopt --model DIR{where})"))
    return facts
