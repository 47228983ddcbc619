"""Checks tasks of somebody else's domain: an attempt that does nothing has to fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from meta_agent.core.protocols import Domain, Outcome, Task
from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt, Subject


class PluggedSubject(Subject[Domain]):
    """See `Subject`."""

    noun = "attempt"
    columns = ("empty",)

    def facts(self) -> Sequence[Facts]:
        return [
            Facts(task.key, task.split, line, _text(task), (task.content_hash,))
            for line, task in enumerate(self._tasks.values(), 1)
        ]

    def size(self, key: str) -> str:
        return f"{len(self._tasks[key].view)} fields"

    def attempts(self, key: str) -> Iterator[Attempt]:
        yield Attempt("empty", False, partial(self._nothing, self._tasks[key]))

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
