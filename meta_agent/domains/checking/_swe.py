"""Checks repository tasks by the gold patch, the empty one, and patches that cheat."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import partial

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import Outcome
from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt, Subject
from meta_agent.domains.formats import SweRow, semantic_key
from meta_agent.domains.swe import RealSwe
from meta_agent.domains.swe.cheats import CHEATS


class SweSubject(Subject[RealSwe]):
    """See `Subject`."""

    noun = "patch"
    columns = ("gold", "empty", *CHEATS)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._domain.notes, *self._same_places())

    def facts(self) -> Sequence[Facts]:
        return [_facts(row) for row in self._domain.rows.values()]

    def size(self, key: str) -> str:
        row = self._domain.rows[key]
        if row.expected:
            return f"{len(row.expected)} tests"
        return f"{len(row.fail_to_pass)}+{len(row.pass_to_pass)} tests"

    def attempts(self, key: str) -> Iterator[Attempt]:
        row = self._domain.rows[key]
        if row.patch is not None:
            yield Attempt("gold", True, partial(self._graded, key, row.patch))
        yield Attempt("empty", False, partial(self._graded, key, ""))
        for name in CHEATS:
            yield Attempt(name, False, partial(self._cheat, key, name))

    def complaints(self, key: str) -> list[str]:
        if self._domain.rows[key].patch is None:
            return ["the row has no gold patch, so nothing shows that the task can be solved"]
        return []

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        detail = outcome.detail
        return (*map(str, detail["not_passing"][:3]), *map(str, detail["evidence"][:3]))

    def archives(self) -> tuple[tuple[str, str], ...]:
        sources = [row.source for row in self._domain.rows.values() if row.source]
        pairs = {(source.archive, source.sha256) for source in sources if source.archive}
        return tuple(sorted(pairs))

    def _graded(self, key: str, patch: str) -> Outcome:
        return self._domain.regrade(key, {"patch": patch})

    def _cheat(self, key: str, name: str) -> Outcome:
        return self._graded(key, CHEATS[name](self._domain.files(key)))

    def _same_places(self) -> tuple[str, ...]:
        """A note on places that tasks of different splits mend alike, although they differ."""
        splits: dict[tuple[str, str], set[str]] = {}
        for row in self._domain.rows.values():
            for path, content in (self._gold(row) or {}).items():
                end = hashlib.sha256(content or b"").hexdigest() + _hunks(row.patch or "")
                splits.setdefault((path, end), set()).add(row.split)
        count = sum(len(names) > 1 for names in splits.values())
        if not count:
            return ()
        return (f"{count} places of a file are mended by tasks of more than one split",)

    def _gold(self, row: SweRow) -> dict[str, bytes | None] | None:
        try:
            return self._domain.files(row.instance_id).gold
        except InfrastructureError:
            return None  # its trials say so


def _facts(row: SweRow) -> Facts:
    marks = (
        semantic_key(row.repo, row.patch, row.problem_statement),
        f"text {row.repo} {' '.join(row.problem_statement.split())}",
    )
    return Facts(row.instance_id, row.split, row.line, row.problem_statement, marks)


def _hunks(patch: str) -> str:
    """The lines of the mended file where a patch's hunks begin."""
    return " ".join(re.findall(r"^@@ -\S+ \+(\d+)", patch, re.MULTILINE))


subject_of = SweSubject
