"""`CodeDomain`: a file of programming problems as a domain with a sealed grader.

Promises: the agent sees the problem and its starter code, never tests or solutions. Candidates run
in sandboxes that hold no expected output (see `_runner.py`). `evaluator_hash` changes with the
rows, the code that grades, the limits, the ceilings and the sampling.

Does not cover: other languages than Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from meta_agent.core.protocols import (
    JSON,
    Ceilings,
    Environment,
    Outcome,
    Sandbox,
    SandboxLimits,
    Task,
    ToolResult,
)
from meta_agent.domains._identity import ReadTasks, code_hash
from meta_agent.domains._scratch import Scratch
from meta_agent.domains.code._examples import has_examples, try_examples
from meta_agent.domains.code._runner import CodeRunner
from meta_agent.domains.code._solution import MAX_SOURCE_CHARS, code_in, program_of
from meta_agent.domains.formats.code_sets import CodeRow, read_code

_CEILINGS = Ceilings(
    max_turns=12, max_tokens_per_turn=8192, max_context_tokens=32_768, wall_sec=900.0
)
_CODE: Mapping[str, Sequence[str]] = {
    "code": (
        *("_compare.py", "_runner.py", "_solution.py", "_examples.py"),
        *("values_guest.py", "candidate_guest.py", "judge_guest.py"),
    ),
    "": ("_scratch.py",),
    "formats": ("code_sets.py", "_pickled.py", "rows.py", "files.py"),
}


class CodeDomain(ReadTasks):
    """The domain of programming problems: an answer is a Python program, graded by tests."""

    name = "code"
    ceilings = _CEILINGS
    regrade_at_most = 24  # each takes a sandbox

    def __init__(
        self, path: Path, runner: CodeRunner, mapping: Mapping[str, str] | None = None
    ) -> None:
        self.runner = runner
        self._take(read_code(path, mapping))
        self.evaluator_hash = self.hash_with(grader=code_hash(**_CODE))

    def view(self, row: CodeRow) -> dict[str, JSON]:
        return {
            "problem": row.prompt,
            "kind": "program" if row.kind == "stdio" else "function",
            "entry_point": row.entry_point,
            "starter": row.starter,
            "examples": has_examples(row),
            "tools": list(CodeEnvironment.tools),
        }

    def open(self, task: Task) -> Environment:
        """Returns a new attempt's environment. Its sandbox starts at the first `run` or `test`."""
        return CodeEnvironment(self.rows[task.key], self.runner)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        """Returns the outcome of a stored attempt, whose submitted code is tested again."""
        return graded(self.rows[task_key], verifier_inputs.get("code"), self.runner)

    def close(self) -> None:
        """Ends the grader's idle sandboxes."""
        self.runner.close()


class CodeEnvironment:
    """One attempt at a programming problem. Its tools: `run`, `test` (on examples), `submit`."""

    tools: Sequence[str] = ("run", "test", "submit")

    def __init__(self, row: CodeRow, runner: CodeRunner) -> None:
        self._row, self._runner = row, runner
        self._code: str | None = None
        self._scratch = Scratch(lambda: runner.factory(row.memory_mb))

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        if self._code is not None:
            return ToolResult("the attempt is over", ok=False, done=True)
        code = _code_of(arguments)
        if tool not in self.tools or code is None:
            problem = (
                f"no tool {tool!r}" if tool not in self.tools else f"{tool} needs code, a string"
            )
            there = "run(code, stdin), test(code) and submit(code)"
            return ToolResult(f"{problem}; there are {there}", ok=False)
        if tool == "run":
            return self._scratch.python(code, str(arguments.get("stdin") or ""))
        if tool == "test":
            return try_examples(self._row, code, self._scratch)
        self._code = code[: MAX_SOURCE_CHARS + 1]
        return ToolResult("submitted", done=True)

    def grade(self) -> Outcome:
        return graded(self._row, self._code, self._runner)

    def verifier_inputs(self) -> dict[str, JSON]:
        return {} if self._code is None else {"code": self._code}

    def close(self) -> None:
        """Ends the attempt's own sandbox."""
        self._scratch.close()


def _code_of(arguments: Mapping[str, JSON]) -> str | None:
    code, text = arguments.get("code"), arguments.get("text")
    if isinstance(code, str):
        return code
    return code_in(text) if isinstance(text, str) else None


def graded(row: CodeRow, code: JSON, runner: CodeRunner) -> Outcome:
    """Runs a row's tests on submitted code; returns the outcome. No code or too much code fails."""
    if not isinstance(code, str) or not code.strip():
        return Outcome(False, {"verdict": "no_code"})
    if len(code) > MAX_SOURCE_CHARS:
        return Outcome(False, {"verdict": "code_too_long"})
    result = runner.run(row, program_of(row, code))
    detail = {
        "verdict": result.end,
        "tests": [result.passed, result.total],
        "detail": result.detail,
    }
    flags = ("tamper:protocol",) if result.end == "killed_protocol" else ()
    return Outcome(result.success, detail, flags)


def code_runner(sandbox: str, *, run: str = "code", candidates_per_sandbox: int = 1) -> CodeRunner:
    """Returns a grader of programs with sandboxes of the backend `sandbox`, labelled by `run`."""
    from meta_agent.sandboxes import open_sandbox

    def factory(memory_mb: int) -> Sandbox:
        limits = SandboxLimits(memory_mb=memory_mb, scratch_mb=64, deadline_sec=4 * 3600.0)
        return open_sandbox(sandbox, run=run, limits=limits)

    return CodeRunner(factory, candidates_per_sandbox)
