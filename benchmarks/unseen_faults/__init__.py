"""Faults of a second hand: whoever writes rules must not read `table.toml`, see README.md."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meta_agent.core.protocols import Factor

Files = Mapping[str, bytes]
TABLE = Path(__file__).parent / "table.toml"


@dataclass(frozen=True, slots=True)
class Unseen:
    """One mistake: in the file at `path` of the competent harness, `old` becomes `new`."""

    suite: str
    name: str
    kind: Factor
    path: str
    mistake: str
    trained: bool  # its loss shows after a training; else on the untrained policy
    old: str
    new: str

    def apply(self, files: Files) -> dict[str, bytes]:
        """Returns the files with the fault, or raises where `old` does not occur exactly once."""
        text = files[self.path].decode()
        if (count := text.count(self.old)) != 1:
            raise ValueError(
                f"{self.name}: its old text occurs {count} times in {self.path}, not once"
            )
        return {**files, self.path: text.replace(self.old, self.new).encode()}


def unseen_faults() -> tuple[Unseen, ...]:
    """Returns the faults in the order of the table."""
    rows = tomllib.loads(TABLE.read_text())["fault"]
    return tuple(Unseen(**row) for row in rows)
