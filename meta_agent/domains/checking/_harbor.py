"""Checks Harbor tasks: the solution has to pass twice, an empty attempt has to fail."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import Outcome
from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt, Subject
from meta_agent.domains.harbor import HarborDomain, VerifierError


class HarborSubject(Subject[HarborDomain]):
    """See `Subject`."""

    noun = "attempt"
    columns = ("gold", "again", "empty")

    def facts(self) -> Sequence[Facts]:
        tasks = self._domain.folders.values()
        return [
            Facts(task.key, self._domain.split_of(task.key), n, task.instruction, (text,))
            for n, task in enumerate(tasks, 1)
            if (text := " ".join(task.instruction.split()))
        ]

    def size(self, key: str) -> str:
        return f"{self._domain.folders[key].agent.timeout_sec:.0f} s"

    def attempts(self, key: str) -> Iterator[Attempt]:
        if self._domain.folders[key].solution is not None:
            for name in ("gold", "again"):
                yield Attempt(name, True, partial(self._outcome, key, True))
        yield Attempt("empty", False, partial(self._outcome, key, False))

    def complaints(self, key: str) -> list[str]:
        if self._domain.folders[key].solution is None:
            return ["there is no solution/solve.sh, so nothing shows that the task can be solved"]
        return []

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        return (f"reward {outcome.detail['score']:g}",)

    def _outcome(self, key: str, solve: bool) -> Outcome:
        with contextlib.closing(self._domain.trial(key)) as trial:
            try:
                if solve:
                    trial.solved()
                return self._domain.regrade(key, {"rewards": trial.rewards()})
            except VerifierError as error:
                raise InfrastructureError(str(error)) from error


subject_of = HarborSubject
