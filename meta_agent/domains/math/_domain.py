"""`MathDomain`: a file of math problems as a domain with a sealed grader.

A gold that cannot be graded is refused while the file is loaded and counted in `notes`. It is never
dropped or scored as a failure. The agent sees the problem alone. `evaluator_hash` changes with the
rows, the code that grades, the versions of the algebra, the ceilings and the sampling.

Does not cover: proofs, and answers that are pictures.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import (
    JSON,
    Ceilings,
    Environment,
    Outcome,
    Sandbox,
    Task,
    ToolResult,
)
from meta_agent.domains._identity import ReadTasks, code_hash
from meta_agent.domains._scratch import Scratch
from meta_agent.domains.formats.math_sets import MathRow, read_math
from meta_agent.domains.formats.rows import stream_rows
from meta_agent.domains.math._grade import Gold, grade_answer, grade_text, sort_golds
from meta_agent.domains.math._verify import WALL_SEC, Verifier, has_library, library_versions

_CEILINGS = Ceilings(
    max_turns=8, max_tokens_per_turn=8192, max_context_tokens=32_768, wall_sec=600.0
)
_CODE: Mapping[str, Sequence[str]] = {
    "math": ("*",),
    "": ("_scratch.py",),
    "formats": ("boxes.py", "math_sets.py", "rows.py", "files.py"),
}
_MAX_TEXT_CHARS = 1 << 18
_CALCULATOR = re.compile(r"<<[^<>\n]*>>")  # GSM8K's notes for a calculator


class MathDomain(ReadTasks):
    """A domain (tasks, grader) of math problems. With sandboxes (`factory`), agents run Python."""

    name = "math"
    ceilings = _CEILINGS

    def __init__(
        self,
        path: Path,
        verifier: Verifier,
        factory: Callable[[], Sandbox] | None = None,
        mapping: Mapping[str, str] | None = None,
    ) -> None:
        self.open_at_once = 8 if factory else None
        self.tools = ("python", "submit") if factory else ("submit",)
        self._verifier = verifier
        self._factory = factory
        problems = read_math(path, mapping)
        golds = sort_golds(problems.rows, verifier)
        problems.refused |= golds.refused
        problems.rows = [row for row in problems.rows if row.key in golds.usable]
        self._golds = golds.usable
        self._take(problems)
        if not self.rows:
            raise ConfigError(
                f"no row of {path} has an answer that can be graded: {'; '.join(self.notes)}",
                hint="grade the rows with a function of your own: --grade FILE.py",
            )
        self.evaluator_hash = self._hash()

    def view(self, row: MathRow) -> dict[str, JSON]:
        return {"problem": row.problem, "tools": list(self.tools)}

    def open(self, task: Task) -> Environment:
        """Returns a new attempt's environment. Its tool `python` starts a sandbox when called."""
        return MathEnvironment(self._golds[task.key], self._verifier, self._factory)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        """Grades a stored attempt again, by the `text` or `answer` in `verifier_inputs`."""
        return graded(self._golds[task_key], verifier_inputs, self._verifier)

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, solution=self.solution)

    def solution(self, key: str) -> tuple[str, str] | None:
        """Returns a problem and its worked solution, if the file has one that the grader accepts.

        The solution ends in a box. A bare answer shows no way to it, and is no solution.
        """
        row = self.rows[key]
        working, mark, answer = self._worked.get(row.line, "").rpartition("####")
        text = f"{working.rstrip()}\n\\boxed{{{answer.strip()}}}" if mark else answer
        accepted = graded(self._golds[key], {"text": text}, self._verifier).success
        return (row.problem, text) if accepted else None

    @cached_property
    def _worked(self) -> Mapping[int, str]:
        """Returns the worked solutions of the file by line, in the forms of GSM8K and MATH."""
        solutions = {}
        for fields in stream_rows(self.path):
            text = fields.row.get("solution") or fields.row.get("answer")
            if isinstance(text, str) and ("solution" in fields.row or "####" in text):
                solutions[fields.line] = _CALCULATOR.sub("", text)
        return solutions

    def gold(self, key: str) -> Gold:
        """Returns the gold (right) answer of a task, for trusted code only."""
        return self._golds[key]

    def close(self) -> None:
        """Ends the process that compares answers by algebra."""
        self._verifier.close()

    def _hash(self) -> str:
        needs_algebra = any(gold.kind == "expression" for gold in self._golds.values())
        return self.hash_with(
            grader=code_hash(**_CODE),
            algebra=dict(library_versions()) if needs_algebra or has_library() else {},
            limits=[WALL_SEC],
            tools=list(self.tools),
        )


class MathEnvironment:
    """An attempt at a math problem, with the tools `submit` and, if it has a sandbox, `python`."""

    def __init__(
        self, gold: Gold, verifier: Verifier, factory: Callable[[], Sandbox] | None = None
    ) -> None:
        self.tools: Sequence[str] = ("python", "submit") if factory else ("submit",)
        self._gold, self._verifier = gold, verifier
        self._scratch = Scratch(factory) if factory else None
        self._submitted: dict[str, JSON] = {}

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        if self._submitted:
            return ToolResult("the attempt is over", ok=False, done=True)
        if tool == "python" and self._scratch:
            code = arguments.get("code")
            if not isinstance(code, str):
                return ToolResult("python needs the argument code, a string", ok=False)
            return self._scratch.python(code)
        if tool != "submit":
            message = f"no tool {tool!r}; there is {' and '.join(self.tools)}"
            return ToolResult(message, ok=False)
        for name in ("answer", "text"):
            if isinstance(arguments.get(name), str | int):
                self._submitted = {name: str(arguments[name])[-_MAX_TEXT_CHARS:]}
                return ToolResult("submitted", done=True)
        return ToolResult("submit needs the argument text or answer, a string", ok=False)

    def grade(self) -> Outcome:
        return graded(self._gold, self._submitted, self._verifier)

    def verifier_inputs(self) -> dict[str, JSON]:
        return dict(self._submitted)

    def close(self) -> None:
        """Ends the attempt's sandbox, if one was started."""
        if self._scratch:
            self._scratch.close()


def graded(gold: Gold, submitted: Mapping[str, JSON], verifier: Verifier) -> Outcome:
    """Grades a submitted reply (`text`) or `answer`. If both are missing, the attempt failed."""
    text, answer = submitted.get("text"), submitted.get("answer")
    if isinstance(answer, str):
        outcome = grade_text(gold, answer, verifier)
        has_marker = outcome.detail["verdict"] != "no_answer"
        return outcome if has_marker else grade_answer(gold, answer.strip(), verifier)
    return grade_text(gold, text if isinstance(text, str) else "", verifier)
