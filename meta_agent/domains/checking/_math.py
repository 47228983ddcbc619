"""Checks math problems by the gold answer, the bare problem, and texts that fish for the gold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from meta_agent.domains.checking._subject import Subject, Subjects
from meta_agent.domains.formats import MathRow
from meta_agent.domains.math import MathDomain


def _wrong(row: MathRow) -> str:
    """Returns a wrong answer that looks like the gold answer."""
    plain = row.gold.replace(",", "")
    return str(int(plain) + 1) if plain.lstrip("-").isdecimal() else f"{row.gold} + 1"


def _last_wrong(row: MathRow) -> str:
    """Returns a reply that takes the right answer back, for graders that read any box."""
    return rf"It is \boxed{{{row.gold}}}. No: \boxed{{{_wrong(row)}}}"


def _list(row: MathRow) -> str:
    """Returns a reply with the right and a wrong answer in one box."""
    return rf"\boxed{{{row.gold}, {_wrong(row)}}}"


def _mentioned(row: MathRow) -> str:
    """Returns a reply that mentions the right answer, but ends in a wrong one."""
    return f"{row.gold} {row.gold}\n#### {_wrong(row)}"


CHEATS: Final[Mapping[str, Callable[[MathRow], str]]] = {
    "taken_back": _last_wrong,
    "listed": _list,
    "mentioned": _mentioned,
}


def subjects_of(domain: MathDomain) -> Subjects:
    """Returns the replies that a check grades at each math problem: the gold answer and cheats."""

    def subject(row: MathRow) -> Subject:
        texts = {"gold": rf"So the answer is \boxed{{{row.gold}}}.", "empty": row.problem}
        texts |= {name: cheat(row) for name, cheat in CHEATS.items()}
        attempts = {n: partial(domain.regrade, row.key, {"text": t}) for n, t in texts.items()}
        kind = domain.gold(row.key).kind
        marks = (row.semantic_key,)
        return Subject(row.key, row.split, row.line, row.problem, marks, kind, attempts)

    return Subjects(
        domain,
        noun="answer",
        columns=("gold", "empty", *CHEATS),
        tasks=tuple(map(subject, domain.rows.values())),
        rows_refused=len(domain.refused),
        evidence=lambda outcome: (
            (f"answer {outcome.detail['answer']!r}",) if "answer" in outcome.detail else ()
        ),
    )
