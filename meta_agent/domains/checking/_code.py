"""Checks programming problems by their solutions, an empty program, and programs that cheat."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from meta_agent.core.protocols import Outcome
from meta_agent.domains.checking._subject import Subject, Subjects
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
    """Returns `body` as a program, or as the body of the function that the task asks for."""
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


CHEATS: Final[Mapping[str, Callable[[CodeRow], str]]] = {
    "exit_0": _leaves,
    "always_equal": _equal,
    "forged_report": _forges,
}


def subjects_of(domain: CodeDomain) -> Subjects:
    """Returns what a check grades at each problem: solutions, cheats and an empty program."""
    rows = domain.rows.values()
    without = sum(not row.gold for row in rows)
    note = f"{without} tasks have no solution in the file: nothing shows that they can be solved"
    return Subjects(
        domain,
        columns=("gold", "empty", *CHEATS),
        tasks=tuple(_subject(domain, row) for row in rows),
        rows_refused=len(domain.refused),
        extra_notes=(note,) if without else (),
        evidence=lambda outcome: tuple(
            str(outcome.detail[name])[:200]
            for name in ("tests", "detail")
            if outcome.detail.get(name)
        ),
    )


def _subject(domain: CodeDomain, row: CodeRow) -> Subject:
    marks = [f"text {' '.join(row.prompt.split())}"]
    if row.cases or row.program:
        tests = json.dumps([[case.input, case.expected] for case in row.cases], default=str)
        marks.append(f"tests {hashlib.sha256((tests + row.program).encode()).hexdigest()}")
    programs = {"empty": "", **{name: cheat(row) for name, cheat in CHEATS.items()}}
    attempts = {n: partial(domain.regrade, row.key, {"code": c}) for n, c in programs.items()}
    if row.gold:
        attempts = {"gold": partial(_golds_graded, domain, row.key), **attempts}
    size = "asserts" if row.kind == "asserts" else f"{len(row.cases)} tests"
    return Subject(row.key, row.split, row.line, row.prompt, tuple(marks), size, attempts)


def _golds_graded(domain: CodeDomain, key: str) -> Outcome:
    """Returns the outcome of the first solution that fails, or of the last one if all pass."""
    programs = tuple(dict.fromkeys(domain.rows[key].gold))
    for number, program in enumerate(programs, 1):
        outcome = domain.regrade(key, {"code": program})
        if not outcome.success and len(programs) > 1:
            reason = f"solution {number} of {len(programs)}: {outcome.detail.get('detail', '')}"
            return replace(outcome, detail={**outcome.detail, "detail": reason})
        if not outcome.success:
            break
    return outcome
