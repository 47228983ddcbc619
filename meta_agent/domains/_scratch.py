"""A sandbox in which an attempt may try programs. The first program starts it.

Promises: if a program kills its sandbox, its answer says so and the next program gets a fresh
sandbox. An attempt therefore cannot cause an infrastructure error this way. The output is clipped
and says how the program ended. No grader reads it.

Not covered: state between programs, other than the files they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import ExecResult, Sandbox, ToolResult

RUN_SEC: Final = 20.0
OUTPUT_CHARS: Final = 4000
MAX_SANDBOXES: Final = 4  # for one attempt; one that kills them all gets no other
_KILLED: Final = frozenset({"oom", "died", "timeout"})


class Scratch:
    """A sandbox in which an agent tries Python programs during one attempt. No grader reads it."""

    def __init__(self, start: Callable[[], Sandbox]) -> None:
        self._start = start
        self._sandbox: Sandbox | None = None
        self._started = 0

    def python(
        self, code: str, stdin: str = "", *, files: Mapping[str, str] | None = None
    ) -> ToolResult:
        """Runs Python code, with `files` beside it, and returns its output and exit status."""
        try:
            done = self._run(code, stdin, files or {})
        except SandboxError as problem:
            if self._sandbox is None or problem.kind not in _KILLED:
                raise
            self.close()
            return ToolResult(f"[the sandbox was killed: {problem.kind}]", ok=False)
        return result_of(done) if done else ToolResult("[no sandbox left to run this in]", ok=False)

    def close(self) -> None:
        """Ends the sandbox. The next program starts a new one."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _run(self, code: str, stdin: str, files: Mapping[str, str]) -> ExecResult | None:
        if self._sandbox is None:
            if self._started >= MAX_SANDBOXES:
                return None
            self._started += 1
            self._sandbox = self._start()
        texts = {**files, "main.py": code}
        self._sandbox.write({name: _bytes(text) for name, text in texts.items()})
        return self._sandbox.exec(
            ["python3", "-I", "main.py"],
            stdin=_bytes(stdin),
            timeout_sec=RUN_SEC,
            output_limit_bytes=1 << 18,
        )


def clipped(text: str, limit: int = OUTPUT_CHARS) -> str:
    """Returns the text. Above `limit` characters, a note stands in place of its middle."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def result_of(done: ExecResult, seconds: float = RUN_SEC, limit: int = OUTPUT_CHARS) -> ToolResult:
    """Returns a command's clipped output and exit status; `seconds` is the time limit it had."""
    text = clipped((done.stdout + done.stderr).decode("utf-8", "replace"), limit).rstrip()
    end = f"[stopped after {seconds:.0f} s]" if done.timed_out else f"[exit {done.exit_code}]"
    return ToolResult(f"{text}\n{end}".lstrip(), done.exit_code == 0 and not done.timed_out)
