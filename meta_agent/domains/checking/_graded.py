"""Checks tasks of a user's own grader by the row's gold, if any, and by empty answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import JSON, Outcome
from meta_agent.domains.checking._subject import Subject, Subjects
from meta_agent.domains.formats.graded_sets import GradedRow, digest
from meta_agent.domains.graded import GradedDomain, GraderError

_EVERYTHING = "yes no true false pass 0 1 2 a b c d e"


def subjects_of(domain: GradedDomain) -> Subjects:
    """Returns the answers that a check grades at each task: the gold answer and wrong answers."""

    def graded(key: str, answer: Mapping[str, JSON] | None) -> Outcome:
        try:
            return domain.regrade(key, answer or domain.reference(key) or {})
        except GraderError as error:  # the answer was not measured
            raise InfrastructureError(str(error)) from error

    def subject(row: GradedRow) -> Subject:
        answers: dict[str, Mapping[str, JSON] | None] = {"gold": None} if has_gold(row) else {}
        texts = {"empty": "", "echo": row.prompt, "everything": _EVERYTHING}
        answers |= {name: {"answer": text} for name, text in texts.items()}
        hidden = {n: value for n, value in row.row.items() if n not in ("key", "id", "split")}
        return Subject(
            *(row.key, row.split, row.line, row.prompt, (digest([row.prompt, hidden]),), size),
            attempts={name: partial(graded, row.key, answer) for name, answer in answers.items()},
        )

    def has_gold(row: GradedRow) -> bool:
        return row.gold is not None or bool(domain.facts["reference"])

    size = "yes or no" if domain.threshold is None else f"from {domain.threshold:g}"
    rows = domain.rows.values()
    without = sum(not has_gold(row) for row in rows)
    note = (
        f"{without} of {len(rows)} rows have no answer that has to pass (gold): nothing shows that "
        "they can be solved"
    )
    return Subjects(
        domain,
        columns=("gold", "empty", "echo", "everything"),
        tasks=tuple(map(subject, rows)),
        rows_refused=len(domain.refused),
        extra_notes=(note,) if without else (),
        evidence=lambda outcome: (
            (f"score {outcome.detail['score']:g}",) if "score" in outcome.detail else ()
        ),
    )
