"""Reference solutions of the tasks of a file: what its rows say, for trusted code only.

It is no part of a grader: `evaluator_hash` does not read this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from meta_agent.core.capabilities import Capabilities
from meta_agent.domains.formats._swe_row import SweRow
from meta_agent.domains.formats.code_sets import CodeRow
from meta_agent.domains.formats.graded_sets import GradedRow
from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.formats.rows import stream_rows


def reference_of(capabilities: Capabilities, row: Any) -> str | None:
    """Returns a row's program, patch, worked solution or accepted reply; None without one.

    The answer alone of a math problem is no solution.
    """
    match row:
        case CodeRow(gold=(program, *_)):
            return str(program).removeprefix(row.prompt)
        case SweRow():
            return row.patch
        case MathRow() if capabilities.path is not None:
            return _worked(capabilities.path).get(row.line)
        case GradedRow():
            solution = capabilities.solution(row.key)
            return solution and solution[1]
    return None


@lru_cache(maxsize=1)
def _worked(path: Path) -> Mapping[int, str]:
    """Returns the worked solutions of a file of math problems, by line (MATH and GSM8K)."""
    solutions = {}
    for fields in stream_rows(path):
        text = fields.row.get("solution") or fields.row.get("answer")
        if isinstance(text, str) and ("solution" in fields.row or "####" in text):
            solutions[fields.line] = text
    return solutions
