"""Checks tasks of a domain that somebody else wrote: an attempt that does nothing has to fail."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial

from meta_agent.core.protocols import SPLITS, Domain, Outcome, Task
from meta_agent.domains.checking._subject import Subject, Subjects


def subjects_of(domain: Domain) -> Subjects:
    """Returns, for each task of a user's domain, an attempt that does nothing, which must fail."""

    def nothing(task: Task) -> Outcome:
        with closing(domain.open(task)) as environment:
            outcome = environment.grade()
        return replace(outcome, detail={"verdict": "graded", **outcome.detail})

    def subject(line: int, task: Task) -> Subject:
        text = str({n: value for n, value in task.view.items() if n not in ("tools", "schemas")})
        return Subject(
            *(task.key, task.split, line, text, (task.content_hash,), f"{len(task.view)} fields"),
            attempts={"empty": partial(nothing, task)},
        )

    tasks = [task for split in SPLITS for task in domain.tasks(split)]
    subjects = tuple(subject(line, task) for line, task in enumerate(tasks, 1))
    return Subjects(domain, columns=("empty",), tasks=subjects)
