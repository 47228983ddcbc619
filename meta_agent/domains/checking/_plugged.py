"""Tasks of somebody else's domain under check: an attempt that does nothing must fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt
from meta_agent.offers import Offered
from meta_agent.protocols import SPLITS, Domain, Outcome, Task


class PluggedSubject:
    """See `Subject`."""

    noun = "attempt"
    columns = ("empty",)
    rows_refused = 0

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.name, self.evaluator_hash = domain.name, domain.evaluator_hash
        self.path = Path(Offered.by(domain).path or domain.name)
        self._tasks = {task.key: task for split in SPLITS for task in domain.tasks(split)}

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(Offered.by(self._domain).notes)

    def facts(self) -> Sequence[Facts]:
        return [
            Facts(task.key, task.split, line, _text(task), (task.content_hash,))
            for line, task in enumerate(self._tasks.values(), 1)
        ]

    def size(self, key: str) -> str:
        return f"{len(self._tasks[key].view)} fields"

    def content_hash(self, key: str) -> str:
        return self._tasks[key].content_hash

    def attempts(self, key: str) -> Iterator[Attempt]:
        yield Attempt("empty", False, partial(self._nothing, self._tasks[key]))

    def complaints(self, key: str) -> list[str]:
        del key
        return []

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        del outcome
        return ()

    def archives(self) -> tuple[tuple[str, str], ...]:
        return ()

    def close(self) -> None:
        Offered.by(self._domain).close()

    def _nothing(self, task: Task) -> Outcome:
        environment = self._domain.open(task)
        try:
            outcome = environment.grade()
        finally:
            environment.close()
        return replace(outcome, detail={"verdict": "graded", **outcome.detail})


def _text(task: Task) -> str:
    return str({n: value for n, value in task.view.items() if n not in ("tools", "schemas")})


subject_of = PluggedSubject
