"""Checks tasks of a user's own grader by the row's gold, if any, and by empty answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import JSON, Outcome
from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt, Subject
from meta_agent.domains.formats.graded_sets import GradedRow, digest
from meta_agent.domains.graded import GradedDomain, GraderError

_CHEATS: Final[Mapping[str, Callable[[GradedRow], str]]] = MappingProxyType(
    {
        "empty": lambda _row: "",
        "echo": lambda row: row.prompt,
        "everything": lambda _row: "yes no true false pass 0 1 2 a b c d e",
    }
)


class GradedSubject(Subject[GradedDomain]):
    """See `Subject`."""

    noun = "answer"
    columns = ("gold", *_CHEATS)

    def __init__(self, domain: GradedDomain) -> None:
        super().__init__(domain)
        self.rows_refused = domain.rows_refused

    @property
    def notes(self) -> tuple[str, ...]:
        rows = self._domain.rows.values()
        without = sum(row.gold is None for row in rows)
        note = (
            f"{without} of {len(rows)} rows have no answer that has to pass (gold): nothing shows "
            "that they can be solved"
        )
        return (*self._domain.notes, *((note,) if without else ()))

    def facts(self) -> Sequence[Facts]:
        return [
            Facts(row.key, row.split, row.line, row.prompt, (digest(_content(row)),))
            for row in self._domain.rows.values()
        ]

    def size(self, key: str) -> str:
        del key
        limit = self._domain.threshold
        return "yes or no" if limit is None else f"from {limit:g}"

    def attempts(self, key: str) -> Iterator[Attempt]:
        row = self._domain.rows[key]
        if row.gold is not None:
            yield Attempt("gold", True, partial(self._graded, key, row.gold))
        for name, cheat in _CHEATS.items():
            yield Attempt(name, False, partial(self._graded, key, {"answer": cheat(row)}))

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        score = outcome.detail.get("score")
        return () if score is None else (f"score {score:g}",)

    def _graded(self, key: str, answer: Mapping[str, JSON]) -> Outcome:
        try:
            return self._domain.regrade(key, answer)
        except GraderError as error:  # the answer was not measured
            raise InfrastructureError(str(error)) from error


def _content(row: GradedRow) -> list[object]:
    hidden = {name: value for name, value in row.row.items() if name not in ("key", "id", "split")}
    return [row.prompt, hidden]


subject_of = GradedSubject
