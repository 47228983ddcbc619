"""Checks math problems by the gold answer, the bare problem, and texts that fish for the gold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from meta_agent.core.protocols import JSON, Outcome
from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt, Subject
from meta_agent.domains.formats import MathRow
from meta_agent.domains.math import MathDomain


def _wrong(row: MathRow) -> str:
    """Another answer of the same kind."""
    plain = row.gold.replace(",", "")
    return str(int(plain) + 1) if plain.lstrip("-").isdecimal() else f"{row.gold} + 1"


def _last_wrong(row: MathRow) -> str:
    """The right answer, taken back. Graders that take any box, or the first, fall for it."""
    return rf"It is \boxed{{{row.gold}}}. No: \boxed{{{_wrong(row)}}}"


def _list(row: MathRow) -> str:
    """Two answers in one box, the right one among them."""
    return rf"\boxed{{{row.gold}, {_wrong(row)}}}"


def _mentioned(row: MathRow) -> str:
    """The right answer in the text, and a wrong one as the answer."""
    return f"{row.gold} {row.gold}\n#### {_wrong(row)}"


CHEATS: Final[Mapping[str, Callable[[MathRow], str]]] = MappingProxyType(
    {"taken_back": _last_wrong, "listed": _list, "mentioned": _mentioned}
)


class MathSubject(Subject[MathDomain]):
    """See `Subject`."""

    noun = "answer"
    columns = ("gold", "empty", *CHEATS)

    def __init__(self, domain: MathDomain) -> None:
        super().__init__(domain)
        self.rows_refused = len(domain.refused)

    def facts(self) -> Sequence[Facts]:
        rows = self._domain.rows.values()
        return [
            Facts(row.key, row.split, row.line, row.problem, (row.semantic_key,)) for row in rows
        ]

    def size(self, key: str) -> str:
        return self._domain.gold(key).kind

    def attempts(self, key: str) -> Iterator[Attempt]:
        row = self._domain.rows[key]
        gold = rf"So the answer is \boxed{{{row.gold}}}."
        yield Attempt("gold", True, partial(self._graded, key, gold))
        yield Attempt("empty", False, partial(self._graded, key, row.problem))
        for name, cheat in CHEATS.items():
            yield Attempt(name, False, partial(self._graded, key, cheat(row)))

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        answer: JSON = outcome.detail.get("answer")
        return (f"answer {answer!r}",) if answer is not None else ()

    def _graded(self, key: str, text: str) -> Outcome:
        return self._domain.regrade(key, {"text": text})


subject_of = MathSubject
