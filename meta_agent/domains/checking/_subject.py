"""The base class of what a check needs to know of one kind of task file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import SPLITS, Domain, Outcome, Task
from meta_agent.domains.checking._overlap import Facts

D = TypeVar("D", bound=Domain)


class Attempt(NamedTuple):
    """Something to hand in, and whether it has to be accepted."""

    name: str
    must_resolve: bool
    graded: Callable[[], Outcome]


class Subject(ABC, Generic[D]):
    """A loaded task file: the attempts at each task, and the facts that are compared."""

    noun: str  # what an attempt hands in
    columns: tuple[str, ...]  # names of the attempts, as a table shows them
    rows_refused = 0

    def __init__(self, domain: D) -> None:
        self._domain = domain
        self.name, self.evaluator_hash = domain.name, domain.evaluator_hash
        self.path = Path(Capabilities.of(domain).path or domain.name)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(Capabilities.of(self._domain).notes)

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return {task.key: task for split in SPLITS for task in self._domain.tasks(split)}

    def content_hash(self, key: str) -> str:
        return self._tasks[key].content_hash

    @abstractmethod
    def facts(self) -> Sequence[Facts]: ...

    @abstractmethod
    def size(self, key: str) -> str: ...

    @abstractmethod
    def attempts(self, key: str) -> Iterator[Attempt]: ...

    def complaints(self, key: str) -> list[str]:
        """What is wrong with a task, whatever the attempts say."""
        del key
        return []

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        """What an outcome says beside its verdict, for the reason of a failure."""
        del outcome
        return ()

    def archives(self) -> tuple[tuple[str, str], ...]:
        """The archives that the tasks rest on, with their hashes."""
        return ()

    def close(self) -> None:
        Capabilities.of(self._domain).close()
