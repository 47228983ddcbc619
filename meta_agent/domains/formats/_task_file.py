"""What reading a file of tasks came to: its usable rows, and every other one, counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(slots=True)
class TaskFile(Generic[Row]):
    """Rows to use, and what happened to those that are not among them."""

    path: Path
    source: str = ""
    rows: list[Row] = field(default_factory=list)
    read: int = 0
    duplicates: int = 0
    splits_stated: bool = False
    """Whether any row says which split it is in; else all are dealt by hash."""
    refused: dict[int, str] = field(default_factory=dict)  # line -> why

    @property
    def notes(self) -> tuple[str, ...]:
        """For a report: what happened to rows that are not tasks."""
        found = []
        if self.duplicates:
            found.append(f"{self.duplicates} of {self.read} rows repeat an earlier problem")
        for why in sorted(set(self.refused.values())):
            lines = [line for line, reason in self.refused.items() if reason == why]
            first = ", ".join(map(str, lines[:3]))
            found.append(f"{len(lines)} rows refused: {why} (first lines: {first})")
        return tuple(found)
