"""One attempt at one task: the agent's sandbox, its tools, and what is handed to the grader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_agent.domains.swe._grade import SandboxFactory, grade_patch
from meta_agent.domains.swe._sift import TaskFiles
from meta_agent.domains.swe._submission import Submission, capture
from meta_agent.domains.swe._tools import RepoTools
from meta_agent.protocols import JSON, Outcome, Sandbox, ToolResult


class SweEnvironment:
    """Holds the agent's sandbox until `close`; grading never touches it but to read the diff."""

    tools: Sequence[str] = RepoTools.names

    def __init__(
        self, files: TaskFiles, sandbox: Sandbox, factory: SandboxFactory, python: str
    ) -> None:
        self._files = files
        self._sandbox = sandbox
        self._factory = factory
        self._python = python
        self._tools = RepoTools(
            sandbox, python, " ".join(sorted(files.deciding & files.visible.keys()))
        )
        self._submission: Submission | None = None

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        """Answers a tool call; `submit` fixes the diff and ends the attempt."""
        if self._submission is not None:
            return ToolResult("the attempt is over", ok=False, done=True)
        result = self._tools.call(tool, arguments)
        if result.done:
            self._captured()
        return result

    def grade(self) -> Outcome:
        """Grades the diff in a fresh sandbox."""
        return grade_patch(self._files, self._captured().patch, self._factory)

    def verifier_inputs(self) -> dict[str, JSON]:
        """All that grading needs again: the whole diff, test edits included."""
        submission = self._captured()
        return {"patch": submission.patch, "left_out": dict(submission.left_out)}

    def close(self) -> None:
        """Ends the agent's sandbox."""
        self._sandbox.close()

    def _captured(self) -> Submission:
        if self._submission is None:
            self._submission = capture(self._sandbox, self._files.visible, self._python)
        return self._submission
