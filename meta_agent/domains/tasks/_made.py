"""What a search for tasks reports, whichever way it made them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON
from meta_agent.core.task_splits import lacking
from meta_agent.domains.formats._splits import BUCKETS
from meta_agent.domains.tasks._rows import Row

Progress = Callable[[str], None]
_SURE: Final = 0.95


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

    @property
    def more(self) -> int:
        """How many more tasks fill the splits that a run lacks, in 19 cases of 20."""
        empty = [
            share / 100 for split, share in BUCKETS if split in self.lacks.split(";")[0].split()
        ]
        if not empty:
            return 0
        miss = (1 - _SURE) / len(empty)  # of each split, so that they are all filled
        return max(math.ceil(math.log(miss) / math.log(1 - share)) for share in empty)

    def to_json(self) -> dict[str, JSON]:
        return {
            "schema_version": 1,
            "path": str(self.path),
            "tasks": self.tasks,
            "tried": self.tried,
            "refused": dict(self.refused),
            "flaky": list(self.flaky),
            "lacks": self.lacks,
            "more": self.more,
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
            f"next: {self._next()}",
        ]

    def _next(self) -> str:
        if not self.lacks:
            return f"meta-agent tasks check {self.path}"
        return (
            f"the same command with --count {self.tasks + self.more}: a task's split follows from "
            f"its place, and {self.more} more fill what is empty in 19 cases of 20; or rows from "
            "another package"
        )
