"""Checks programming problems by their solutions, an empty program, and programs that cheat."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from meta_agent.core.protocols import Outcome
from meta_agent.domains.checking._overlap import Facts
from meta_agent.domains.checking._subject import Attempt, Subject
from meta_agent.domains.code import CodeDomain
from meta_agent.domains.formats import CodeRow

_EQUAL: Final = """
class _Equal(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
"""
_FORGED: Final = """
import json, os, sys
for fd in range(1, 16):
    try:
        os.write(fd, b'{"end": "passed", "passed": 1000, "total": 1000}\\n')
    except OSError:
        pass
"""


def _defined(row: CodeRow, body: str) -> str:
    """A program with this body, or the function that the task asks for."""
    if row.kind == "stdio":
        return body + "\n"
    inside = "".join(f"    {line}\n" for line in body.split("\n"))
    name = row.entry_point or "solve"
    if "." in name or name == "Solution":
        return f"class Solution:\n    def __getattr__(self, name):\n        return {name!r}\n"
    return f"def {name}(*args, **kwargs):\n{inside}"


def _leaves(row: CodeRow) -> str:
    return "import os\n" + _defined(row, "import os\nos._exit(0)")


def _equal(row: CodeRow) -> str:
    if row.kind == "stdio":
        return _defined(row, "print(input())")
    return _EQUAL + _defined(row, "return _Equal()")


def _forges(row: CodeRow) -> str:
    return _FORGED + _defined(row, "import sys\nsys.exit(0)")


CHEATS: Final[Mapping[str, Callable[[CodeRow], str]]] = MappingProxyType(
    {"exit_0": _leaves, "always_equal": _equal, "forged_report": _forges}
)


class CodeSubject(Subject[CodeDomain]):
    """See `Subject`."""

    noun = "program"
    columns = ("gold", "empty", *CHEATS)

    def __init__(self, domain: CodeDomain) -> None:
        super().__init__(domain)
        self.rows_refused = len(domain.refused)

    @property
    def notes(self) -> tuple[str, ...]:
        without = sum(not row.gold for row in self._domain.rows.values())
        note = (
            f"{without} tasks have no solution in the file: nothing shows that they can be solved"
        )
        return (*self._domain.notes, *((note,) if without else ()))

    def facts(self) -> Sequence[Facts]:
        return [_facts(row) for row in self._domain.rows.values()]

    def size(self, key: str) -> str:
        row = self._domain.rows[key]
        return "asserts" if row.kind == "asserts" else f"{len(row.cases)} tests"

    def attempts(self, key: str) -> Iterator[Attempt]:
        row = self._domain.rows[key]
        if row.gold:
            yield Attempt("gold", True, partial(self._golds_graded, key))
        yield Attempt("empty", False, partial(self._graded, key, ""))
        for name, cheat in CHEATS.items():
            yield Attempt(name, False, partial(self._graded, key, cheat(row)))

    def evidence(self, outcome: Outcome) -> tuple[str, ...]:
        detail = outcome.detail
        return tuple(str(detail[name])[:200] for name in ("tests", "detail") if detail.get(name))

    def _golds_graded(self, key: str) -> Outcome:
        """The outcome of the first solution that fails; of the last one where all pass."""
        programs = tuple(dict.fromkeys(self._domain.rows[key].gold))
        for number, program in enumerate(programs, 1):
            outcome = self._graded(key, program)
            if not outcome.success and len(programs) > 1:
                reason = f"solution {number} of {len(programs)}: {outcome.detail.get('detail', '')}"
                return replace(outcome, detail={**outcome.detail, "detail": reason})
            if not outcome.success:
                break
        return outcome

    def _graded(self, key: str, code: str) -> Outcome:
        return self._domain.regrade(key, {"code": code})


def _facts(row: CodeRow) -> Facts:
    tests = json.dumps([[case.input, case.expected] for case in row.cases], default=str)
    marks = [f"text {' '.join(row.prompt.split())}"]
    if row.cases or row.program:
        digest = hashlib.sha256((tests + row.program).encode()).hexdigest()
        marks.append(f"tests {digest}")
    return Facts(row.key, row.split, row.line, row.prompt, tuple(marks))


subject_of = CodeSubject
