"""The tasks of a file with the attempts that a check grades at each, for every kind of domain.

`repetitions` finds tasks that share a mark, a text by which a domain identifies a task.

Does not cover: texts that are nearly the same. During a run the gate's detectors look for those
between training and evaluation tasks.
"""

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
    """A task to check, with attempts to grade. Tasks that share a mark count as the same task."""

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
    """The tasks that a check of a domain goes through, with the attempts to grade at each."""

    domain: Domain
    columns: tuple[str, ...]
    """The names of the attempts, in the order of the table."""
    tasks: tuple[Subject, ...]
    rows_refused: int = 0
    extra_notes: tuple[str, ...] = ()
    """Notes on the file that only a check needs."""
    archives: tuple[tuple[str, str], ...] = ()
    """The archives that the tasks rest on, with their hashes."""
    evidence: Callable[[Outcome], Iterable[str]] = lambda outcome: ()
    """Returns details of an outcome beside its verdict, for the reason of a failure."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*Capabilities.of(self.domain).notes, *self.extra_notes)


def repetitions(tasks: Iterable[Subject]) -> dict[str, str]:
    """Returns, by task key, the reason why a task counts as a repetition of an earlier one."""
    first: dict[str, Subject] = {}
    reasons: dict[str, str] = {}
    for task in tasks:
        for mark in task.marks:
            earlier = first.setdefault(mark, task)
            if earlier is not task:
                reasons[task.key] = _repetition(task, earlier)
    return reasons


def _repetition(task: Subject, earlier: Subject) -> str:
    if earlier.split != task.split:
        return (
            f"the same task as {earlier.key}, which is in another split "
            f"({earlier.split}, this one {task.split}): the splits overlap"
        )
    return f"the same task as {earlier.key}"
