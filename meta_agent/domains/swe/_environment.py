"""One attempt at one task: the agent's sandbox, its tools, and what is handed to the grader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from meta_agent.core.protocols import JSON, Outcome, Sandbox, ToolResult
from meta_agent.domains.swe._submission import Submission, capture
from meta_agent.domains.swe._tools import RepoTools
from meta_agent.domains.swe.grading._grade import grade_patch
from meta_agent.domains.swe.grading._runs import SandboxFactory
from meta_agent.domains.swe.grading._sift import TaskFiles


class SweEnvironment:
    """One attempt at a repository task: tools in a sandbox, and a grader of the diff made there."""

    tools: Sequence[str] = RepoTools.names

    def __init__(
        self, files: TaskFiles, start: Callable[[], Sandbox], factory: SandboxFactory, python: str
    ) -> None:
        self._files = files
        self._start = start
        self._factory = factory
        self._python = python
        self._sandbox: Sandbox | None = None
        self._submission: Submission | None = None

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        """Runs a tool call of the agent and returns its result. `submit` ends the attempt."""
        if self._submission is not None:
            return ToolResult("the attempt is over", ok=False, done=True)
        result = self._tools().call(tool, arguments)
        if result.done:
            self._captured()
        return result

    def grade(self) -> Outcome:
        """Returns the outcome of the official tests on the agent's diff, run in fresh sandboxes."""
        return grade_patch(self._files, self._captured().patch, self._factory)

    def verifier_inputs(self) -> dict[str, JSON]:
        """Returns the agent's diff as `patch`, and as `left_out` changed paths that it lacks."""
        submission = self._captured()
        return {"patch": submission.patch, "left_out": dict(submission.left_out)}

    def close(self) -> None:
        """Ends the agent's sandbox."""
        if self._sandbox is not None:
            self._sandbox.close()

    def start_files(self) -> Mapping[str, bytes]:
        """Returns the files with the bug, by path, for an agent that works in another sandbox."""
        return self._files.visible

    def collect(self, sandbox: Sandbox) -> bool:
        """Submits what changed in the `repo/` of `sandbox`. Returns False for an empty diff."""
        self._submission = capture(sandbox, self._files.visible, "python3")
        return bool(self._submission.patch)

    def _tools(self) -> RepoTools:
        if self._sandbox is None:
            self._sandbox = self._start()
        test_paths = sorted(self._files.deciding & self._files.visible.keys())
        return RepoTools(self._sandbox, self._python, " ".join(test_paths))

    def _captured(self) -> Submission:
        if self._submission is None:
            self._submission = self._capture()
        return self._submission

    def _capture(self) -> Submission:
        if self._sandbox is None:  # no tool was ever called
            return Submission("", {})
        # The image's own interpreter: the row's may be one that only the tests' environment has.
        return capture(self._sandbox, self._files.visible, "python3")
