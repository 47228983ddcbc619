"""Checks tasks that are answered with function calls, like those of any grader.

Where nothing is to be called, any words are right, so that only gold and empty attempts are made.
"""

from __future__ import annotations

from dataclasses import replace

from meta_agent.domains.checking._graded import subjects_of as subjects_of_graded
from meta_agent.domains.checking._subject import Subject, Subjects
from meta_agent.domains.graded import GradedDomain


def subjects_of(domain: GradedDomain) -> Subjects:
    """Returns the answers that a check grades at each task: the gold answer and wrong answers."""

    def subject(task: Subject) -> Subject:
        if domain.rows[task.key].row["expected"]:
            return task
        return replace(task, attempts={n: task.attempts[n] for n in ("gold", "empty")})

    subjects = subjects_of_graded(domain)
    return replace(subjects, tasks=tuple(map(subject, subjects.tasks)))
