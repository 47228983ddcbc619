"""The cells of a search, for people: every set of ideas that was trained together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field
from pydantic.dataclasses import dataclass as read_dataclass

from meta_agent.reports._format import one_line, percent, points, visible
from meta_agent.reports._parts import Count, Measured, Names, Recorded, Share, Truth, Words

_Z95: Final = 1.959964
CELL_COLUMNS: Final = ("", "cell", "members", "search split", "points", "")


def why_barred(outcome: Mapping[str, Any]) -> str:
    """The vetoes of a cell, on one line."""
    return "; ".join(f"{v.get('code')}: {v.get('message')}" for v in outcome.get("vetoes") or ())


@read_dataclass(frozen=True, slots=True)
class CellView(Recorded):
    """One set of ideas that was trained together, and how it did on the search split."""

    generation: Count = 0
    name: Words = ""
    members: Names = ()
    commit: Words = ""
    clean_success: Share = None
    delta: Share = None
    n: Annotated[Count, Field(exclude=True)] = 0
    valid: Truth = False
    why: Words = ""
    chosen: Truth = False

    @property
    def measured(self) -> Measured | None:
        """Its clean success with Wilson's interval over tasks; None where it failed."""
        if self.clean_success is None or not self.n:
            return None
        share, n = self.clean_success, self.n
        middle, spread = share + _Z95**2 / (2 * n), share * (1 - share) / n + (_Z95 / (2 * n)) ** 2
        half, over = _Z95 * math.sqrt(max(0.0, spread)), 1 + _Z95**2 / n
        return Measured("search", n, None, share, ((middle - half) / over, (middle + half) / over))

    @property
    def row(self) -> tuple[str, ...]:
        """Generation, cell, members, clean success, against what it stands on, and a word."""
        names = " ".join("/".join(name.split("/")[-2:]) for name in self.members)
        share = "failed" if self.clean_success is None else percent(self.clean_success)
        moved = "–" if self.delta is None else points(self.delta)
        word = "gone on from" if self.chosen else "" if self.valid else one_line(self.why, 160)
        told = (f"g{self.generation}", self.name, names, share, moved, word)
        return tuple(visible(text) for text in told)


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
