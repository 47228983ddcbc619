"""Harbor tasks under check: the solution passes twice, an empty attempt fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt
from meta_agent.domains.harbor import HarborDomain, VerifierError
from meta_agent.errors import InfrastructureError
from meta_agent.protocols import Outcome


class HarborSubject:
    """See `Subject`."""

    name, noun = "harbor", "attempt"
    columns = ("gold", "again", "empty")
    rows_refused = 0

    def __init__(self, domain: HarborDomain) -> None:
        self._domain = domain
        self.path: Path = domain.path
        self.evaluator_hash = domain.evaluator_hash
        self.notes: tuple[str, ...] = domain.notes

    def facts(self) -> Sequence[Facts]:
        tasks = self._domain.folders.values()
        return [
            Facts(task.key, self._domain.split_of(task.key), n, task.instruction, (text,))
            for n, task in enumerate(tasks, 1)
            if (text := " ".join(task.instruction.split()))
        ]

    def size(self, key: str) -> str:
        return f"{self._domain.folders[key].agent.timeout_sec:.0f} s"

    def content_hash(self, key: str) -> str:
        return self._domain.task(key).content_hash

    def attempts(self, key: str) -> Iterator[Attempt]:
        if self._domain.folders[key].solution is not None:
            for name in ("gold", "again"):
                yield Attempt(name, True, partial(self._tried, key, True))
        yield Attempt("empty", False, partial(self._tried, key, False))

    def complaints(self, key: str) -> list[str]:
        if self._domain.folders[key].solution is None:
            return ["there is no solution/solve.sh, so nothing shows that the task can be solved"]
        return []

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        return (f"reward {outcome.detail['score']:g}",)

    def archives(self) -> tuple[tuple[str, str], ...]:
        return ()

    def close(self) -> None:
        """Nothing is kept open."""

    def _tried(self, key: str, solve: bool) -> Outcome:
        with contextlib.closing(self._domain.trial(key)) as trial:
            try:
                if solve:
                    trial.solved()
                return self._domain.regrade(key, {"rewards": trial.rewards()})
            except VerifierError as error:
                raise InfrastructureError(str(error)) from error


subject_of = HarborSubject
