"""Counts what happened to every row of a file: nothing is dropped without being counted.

`skipped` counts rows that gave no rollout, by reason, with the first places; `left_out` counts
values that a rollout could not carry over, by field; `joined` counts outcomes that came from a
report beside the rollouts (whose rows are not among `rows` unless they are skipped).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from meta_agent.core.protocols import JSON

_PLACES_KEPT = 3
_NAMES_KEPT = 1000  # a file can make up as many fields as it likes
_NAMES_SHOWN = 12
_NAME_CHARS = 80
_OTHERS = "other fields"


@dataclass(slots=True)
class Tally:
    """Counts of one import: its files, its rows, its rollouts, and what was skipped or left out."""

    format: str = ""
    files: int = 0
    rows: int = 0
    rollouts: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    joined: int = 0
    caveats: Counter[str] = field(default_factory=Counter)

    def skip(self, reason: str, place: str, value: str = "") -> None:
        """Counts a skipped row, by reason; keeps the first rows' `place` and the `value` there."""
        self.skipped[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < _PLACES_KEPT:
            places.append(f"{place} has {value}" if value else place)

    def leave_out(self, names: Iterable[str]) -> None:
        """Counts values, by name, that have no place in a rollout."""
        for name in names:
            short = name[:_NAME_CHARS]
            full = len(self.left_out) >= _NAMES_KEPT and short not in self.left_out
            self.left_out[_OTHERS if full else short] += 1

    def add_skipped(self, other: Tally) -> None:
        """Adds the skipped rows of another tally."""
        self.rows += other.skipped_rows
        self.skipped.update(other.skipped)
        for reason, places in other.places.items():
            self.places.setdefault(reason, []).extend(places)

    @property
    def skipped_rows(self) -> int:
        return self.skipped.total()

    def lines(self) -> list[str]:
        """Returns the counts as lines of text: totals, skipped rows by reason, values left out."""
        if not self.rows:
            return [f"{self.files} files, all empty"]
        head = f"{self.rows} rows of {self.format or 'no format'}: {self.rollouts} rollouts"
        lines = [f"{head}, {self.skipped_rows} skipped"]
        for reason, count in self.skipped.most_common():
            first = ", ".join(self.places[reason][:_PLACES_KEPT])
            lines.append(f"skipped {count}: {reason} (first: {first})")
        for caveat, count in self.caveats.most_common():
            lines.append(f"{caveat}, so there may be more: {count} of {self.rollouts} rollouts")
        if self.joined:
            lines.append(f"outcomes from reports of the SWE-bench harness: {self.joined}")
        if self.left_out:
            counts = sorted(self.left_out.most_common(_NAMES_SHOWN))
            names = [f"{name} ({n})" for name, n in counts]
            if more := len(self.left_out) - len(counts):
                names.append(f"and {more} more (--json)")
            lines.append(f"not carried over: {', '.join(names)}")
        return lines

    def to_json(self) -> dict[str, JSON]:
        return {
            "format": self.format,
            "files": self.files,
            "rows": self.rows,
            "rollouts": self.rollouts,
            "outcomes_joined": self.joined,
            "skipped": {
                reason: {"count": count, "first": list(self.places[reason])}
                for reason, count in self.skipped.most_common()
            },
            "caveats": dict(self.caveats),
            "not_carried_over": dict(sorted(self.left_out.items())),
        }
