"""Checks math problems by the gold answer, which has to pass, and the bare problem."""

from __future__ import annotations

from functools import partial

from meta_agent.domains.checking._subject import Subject, Subjects
from meta_agent.domains.formats import MathRow
from meta_agent.domains.math import MathDomain


def subjects_of(domain: MathDomain) -> Subjects:
    """Returns the replies that a check grades at each math problem: the gold and the problem."""

    def subject(row: MathRow) -> Subject:
        texts = {"gold": rf"So the answer is \boxed{{{row.gold}}}.", "empty": row.problem}
        attempts = {n: partial(domain.regrade, row.key, {"text": t}) for n, t in texts.items()}
        kind = domain.gold(row.key).kind
        marks = (row.semantic_key,)
        return Subject(row.key, row.split, row.line, row.problem, marks, kind, attempts)

    return Subjects(
        domain,
        columns=("gold", "empty"),
        tasks=tuple(map(subject, domain.rows.values())),
        rows_refused=len(domain.refused),
        evidence=lambda outcome: (
            (f"answer {outcome.detail['answer']!r}",) if "answer" in outcome.detail else ()
        ),
    )
