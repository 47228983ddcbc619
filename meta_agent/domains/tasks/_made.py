"""What a search for tasks reports, whichever way it made them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meta_agent.domains.fit import lacking
from meta_agent.domains.tasks._rows import Row
from meta_agent.protocols import JSON

Progress = Callable[[str], None]
_MORE: Final = "the same command with a larger --count, or rows from another package"


@dataclass(frozen=True, slots=True)
class Made:
    """What was written, and why not more."""

    path: Path
    tasks: int
    tried: int
    refused: Mapping[str, int]  # why, and how often
    flaky: tuple[str, ...]
    manifest: Row

    @property
    def lacks(self) -> str:
        """Why no run can be made of it; empty where one can."""
        return lacking(self.manifest["splits"], trainable=False)

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return {
            "schema_version": 1,
            "path": str(self.path),
            "tasks": self.tasks,
            "tried": self.tried,
            "refused": dict(self.refused),
            "flaky": list(self.flaky),
            "lacks": self.lacks,
            "manifest": self.manifest,
        }

    def lines(self) -> list[str]:
        """The same for people."""
        splits = ", ".join(f"{split} {n}" for split, n in self.manifest["splits"].items())
        reasons = sorted(self.refused.items(), key=lambda pair: (-pair[1], pair[0]))
        flaky = f"flaky tests left out: {', '.join(self.flaky)}" if self.flaky else ""
        return [
            f"{self.tasks} tasks of {self.tried} tried: {splits}",
            *(f"  {count:4d} refused: {reason}" for reason, count in reasons),
            *([flaky] if flaky else []),
            f"written: {self.path}",
            *([f"evolve refuses the set: it has {self.lacks}"] if self.lacks else []),
            f"next: {_MORE if self.lacks else f'meta-agent tasks check {self.path}'}",
        ]
