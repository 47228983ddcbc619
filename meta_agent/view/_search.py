"""What a search did, for people: every cell of a bundle, both claims, and what is handed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from meta_agent.protocols import JSON
from meta_agent.view._format import one_line, percent, points, visible
from meta_agent.view._parts import Measured, parse_effect

if TYPE_CHECKING:
    from meta_agent.view.state import RunState

_STANDING: Final = {"proven": "proven", "unproven": "unproven", "start": "the start"}
_ABOUT: Final = {"harness": "this harness, over training seeds", "version": "this version"}


@dataclass(frozen=True, slots=True)
class CellView:
    """One set of ideas that was trained together, and how it did on the search split."""

    generation: int
    name: str
    members: tuple[str, ...]
    commit: str
    clean_success: float | None
    delta: float | None
    valid: bool
    why: str
    chosen: bool = False

    @classmethod
    def parse(cls, outcome: Mapping[str, Any]) -> Self:
        clean, delta = (outcome.get(name) for name in ("clean_success", "delta"))
        vetoes = (f"{one.get('code')}: {one.get('message')}" for one in outcome.get("vetoes") or ())
        return cls(
            generation=int(outcome.get("generation") or 0),
            name=str(outcome.get("name", "")),
            members=tuple(str(name) for name in outcome.get("members") or ()),
            commit=str(outcome.get("commit", "")),
            clean_success=float(clean) if isinstance(clean, int | float) else None,
            delta=float(delta) if isinstance(delta, int | float) else None,
            valid=bool(outcome.get("valid")),
            why="; ".join(vetoes),
        )

    @property
    def row(self) -> tuple[str, ...]:
        """Generation, cell, members, clean success, against what it stands on, and a word."""
        names = " ".join("/".join(name.split("/")[-2:]) for name in self.members)
        share = "failed" if self.clean_success is None else percent(self.clean_success)
        moved = "–" if self.delta is None else points(self.delta)
        word = "gone on from" if self.chosen else "" if self.valid else one_line(self.why, 160)
        told = (f"g{self.generation}", self.name, names, share, moved, word)
        return tuple(visible(text) for text in told)

    def to_json(self) -> dict[str, JSON]:
        return {
            "generation": self.generation,
            "name": self.name,
            "members": list(self.members),
            "commit": self.commit,
            "clean_success": self.clean_success,
            "delta": self.delta,
            "valid": self.valid,
            "why": self.why,
            "chosen": self.chosen,
        }


CELL_COLUMNS: Final = ("", "cell", "members", "search split", "points", "")


def handover_words(state: RunState) -> str:
    """The first line of a result: what is in one's hands, and what is known of it."""
    told = state.handover
    if not told:
        return ""
    standing = _STANDING.get(str(told.get("standing")), str(told.get("standing")))
    return visible(f"{standing}: {told.get('words', '')}")


def search_facts(state: RunState) -> Iterator[tuple[str, str]]:
    """Names and sentences: both claims, and the harness and weights in one's hands."""
    for kind, verdict in state.claims.items():
        effect = parse_effect(verdict.get("effect"))
        seen = ""
        if effect:
            low, high = points(effect.ci_low), points(effect.ci_high)
            seen = f" {points(effect.delta)} points [{low}, {high}]"
        reasons = "; ".join(map(str, verdict.get("reasons") or ()))
        about = _ABOUT.get(kind, kind)
        yield "claim", visible(f"{about}: {verdict.get('kind')}{seen}: {reasons}")
    yield from product_facts(state)


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


def chosen_cells(cells: list[CellView], outcome: Mapping[str, Any]) -> list[CellView]:
    """The same cells, the one that a bundle went on from marked."""
    generation, name = outcome.get("generation"), outcome.get("chosen")
    return [
        replace(cell, chosen=True) if (cell.generation, cell.name) == (generation, name) else cell
        for cell in cells
    ]


def measured_cells(cells: list[CellView], first: Measured | None) -> list[tuple[str, ...]]:
    """The table of cells, the start before all."""
    if not cells:
        return []
    share = first.clean_success if first else None
    start = ("", "start", "", "–" if share is None else percent(share), "", "")
    return [start, *(cell.row for cell in cells)]
