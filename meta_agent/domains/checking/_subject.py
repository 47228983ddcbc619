"""What a check knows of a task file, whatever its domain: the tasks, and what is tried on each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import Domain, Outcome

RIGHT: Final = frozenset({"gold", "again"})
"""The names of attempts that have to resolve their task. All others must not."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One task. Tasks that share a mark are the same task. `size` says how much decides it."""

    key: str
    split: str
    line: int
    text: str
    marks: tuple[str, ...]
    size: str = ""
    attempts: Mapping[str, Callable[[], Outcome]] = field(default_factory=dict)
    """The gradings of attempts, by the name of the attempt."""
    complaints: tuple[str, ...] = ()
    """What is wrong with the task, whatever the attempts say."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """A whole file. Each domain's module of this package makes one in `subjects_of`."""

    domain: Domain
    noun: str
    """What an attempt hands in."""
    columns: tuple[str, ...]
    """The names of the attempts, in the order of the table."""
    tasks: tuple[Subject, ...]
    rows_refused: int = 0
    extra_notes: Callable[[], tuple[str, ...]] = lambda: ()
    """Returns notes on the file that only a check needs: some read every task's sources."""
    archives: tuple[tuple[str, str], ...] = ()
    """The archives that the tasks rest on, with their hashes."""
    evidence: Callable[[Outcome], Iterable[str]] = lambda outcome: ()
    """Returns what an outcome says beside its verdict, for the reason of a failure."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*Capabilities.of(self.domain).notes, *self.extra_notes())
