"""One attempt at one task: the agent's sandbox, its tools, and the patch that is graded.

Promises: the patch is written down before anything is scored. Test edits and configuration edits
are in it as well (the sieve judges them later); its text is bounded; what cannot be written as text
is named, not lost silently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, Outcome, Sandbox, ToolResult
from meta_agent.domains.swe._patch import Changes, is_inside, make
from meta_agent.domains.swe._tools import RepoTools
from meta_agent.domains.swe._tree import Listed, ListingError, Tree, list_files
from meta_agent.domains.swe.grading._grade import grade_patch
from meta_agent.domains.swe.grading._runs import SandboxFactory
from meta_agent.domains.swe.grading._sift import TaskFiles

_MAX_FILES: Final = 200
_MAX_FILE_BYTES: Final = 1 << 20
_MAX_PATCH_CHARS: Final = 2 << 20
_PYTHON: Final = "python3"
"""The image's own interpreter: the row's may be one that only the tests' environment has."""


class SweEnvironment:
    """One attempt at a repository task: tools in a sandbox, and a grader of the diff made there."""

    tools: Sequence[str] = RepoTools.names

    def __init__(
        self, files: TaskFiles, start: Callable[[], Sandbox], factory: SandboxFactory, python: str
    ) -> None:
        self._files, self._start, self._factory, self._python = files, start, factory, python
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
        self._submission = capture(sandbox, self._files.visible)
        return bool(self._submission.patch)

    def _tools(self) -> RepoTools:
        if self._sandbox is None:
            self._sandbox = self._start()
        test_paths = sorted(self._files.deciding & self._files.visible.keys())
        return RepoTools(self._sandbox, self._python, " ".join(test_paths))

    def _captured(self) -> Submission:
        if self._submission is None:
            tree, sandbox = self._files.visible, self._sandbox
            # Without a sandbox no tool was ever called.
            self._submission = capture(sandbox, tree) if sandbox else Submission("", {})
        return self._submission


class Submission(NamedTuple):
    """The diff of one attempt. `left_out` maps changed paths that the diff lacks to the reasons."""

    patch: str
    left_out: dict[str, str]


def capture(sandbox: Sandbox, base: Tree) -> Submission:
    """Returns the diff from `base` to the sandbox's `repo/`. It is empty if listing files fails."""
    try:
        listed = list_files(sandbox, "repo", _PYTHON)
    except ListingError as problem:
        return Submission("", {"*": f"the tree cannot be listed: {problem}"})
    left_out: dict[str, str] = {}
    paths: list[str] = []
    for file in listed:
        if file.path in base and hashlib.sha256(base[file.path]).hexdigest() == file.digest:
            continue
        reason = _unfit(file) or ("too many files" if len(paths) >= _MAX_FILES else "")
        if reason:
            left_out[file.path] = reason
        else:
            paths.append(file.path)
    present = {file.path for file in listed}
    changes: Changes = {path: None for path in base if path not in present}
    changes.update(_texts(sandbox, paths, left_out))
    readable = {path: new for path, new in changes.items() if _is_text(base.get(path, b""))}
    left_out.update({path: "not text before" for path in changes if path not in readable})
    patch = make(base, readable)
    if len(patch) > _MAX_PATCH_CHARS:
        return Submission("", {**left_out, "*": f"the patch has {len(patch)} characters"})
    return Submission(patch, left_out)


def _unfit(file: Listed) -> str:
    if not is_inside(file.path):
        return "a name that is not plain"
    if not file.plain:
        return "not a regular file"
    return f"{file.size} bytes" if file.size > _MAX_FILE_BYTES else ""


def _texts(sandbox: Sandbox, paths: list[str], left_out: dict[str, str]) -> Changes:
    changes: Changes = {}
    for start in range(0, len(paths), 16):
        batch = paths[start : start + 16]
        contents = sandbox.read([f"repo/{path}" for path in batch])
        for path in batch:
            content = contents.get(f"repo/{path}")
            if content is None or not _is_text(content):
                left_out[path] = "not text"
            else:
                changes[path] = content
    return changes


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
