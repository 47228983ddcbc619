"""Checks Harbor tasks: the solution has to pass twice, an empty attempt has to fail."""

from __future__ import annotations

import contextlib
from functools import partial

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import Outcome
from meta_agent.domains.checking._subject import Subject, Subjects
from meta_agent.domains.harbor import HarborDomain, VerifierError

_UNSOLVED = "there is no solution/solve.sh, so nothing shows that the task can be solved"


def subjects_of(domain: HarborDomain) -> Subjects:
    """Returns what a check grades at each task: the solution, twice, and one empty attempt."""

    def outcome(key: str, solve: bool) -> Outcome:
        with contextlib.closing(domain.trial(key)) as trial:
            try:
                if solve:
                    trial.solved()
                return domain.regrade(key, {"rewards": trial.rewards()})
            except VerifierError as error:
                raise InfrastructureError(str(error)) from error

    def subject(number: int, key: str) -> Subject:
        task = domain.rows[key]
        names = ("empty",) if task.solution is None else ("gold", "again", "empty")
        return Subject(
            *(key, task.split, number, task.instruction),
            marks=(" ".join(task.instruction.split()),),
            size=f"{task.agent.timeout_sec:.0f} s",
            attempts={name: partial(outcome, key, name != "empty") for name in names},
            complaints=() if task.solution else (_UNSOLVED,),
        )

    return Subjects(
        domain,
        columns=("gold", "again", "empty"),
        tasks=tuple(subject(number, key) for number, key in enumerate(domain.rows, 1)),
        evidence=lambda outcome: (f"reward {outcome.detail['score']:g}",),
    )
