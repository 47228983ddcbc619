"""The tools of one attempt: `view edit search run test submit`, over the agent's own sandbox.

Promises: every call returns text within a bound and says how to go on; a bad argument is an
answer, not an exception; only a broken sandbox raises. Whatever the agent does here is its own
business: nothing of this sandbox but the text of the final diff reaches the grader.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace

from meta_agent.core.protocols import JSON, ExecResult, Sandbox, ToolResult
from meta_agent.domains._scratch import clipped, result_of
from meta_agent.domains.swe._patch import is_inside

OUTPUT_CHARS = 6000
_VIEW_LINES = 120
_RUN_TIMEOUT_SEC = 60.0
# A repeated attempt has to read the same: how long tests took and where objects lay is left out.
_VARYING = (
    (re.compile(r"\bin \d+\.\d+s\b( \(\d+:\d\d:\d\d\))?"), "in some time"),
    (re.compile(r"\b0x[0-9a-f]{6,16}\b"), "0x..."),
)
_FOREIGN_OPTIONS = "unrecognized arguments"
_TOOLS = ("view", "edit", "search", "run", "test", "submit")


class BadCallError(ValueError):
    """Raised for a tool call with wrong arguments. The agent gets the text as the call's result."""


class RepoTools:
    """The agent's tools (view, edit, search, run, test, submit) on a sandbox's `repo/`."""

    names = _TOOLS

    def __init__(self, sandbox: Sandbox, python: str, default_tests: str) -> None:
        self._sandbox = sandbox
        self._python = python
        self._default_tests = default_tests
        self._handlers: dict[str, Callable[[Mapping[str, JSON]], ToolResult]] = {
            "view": self._view,
            "edit": self._edit,
            "search": self._search,
            "run": self._run,
            "test": self._test,
            "submit": lambda _: ToolResult("submitted", done=True),
        }

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        """Runs one tool call and returns its result, also for an unknown tool or bad arguments."""
        handler = self._handlers.get(tool)
        if handler is None:
            return ToolResult(f"no tool {tool!r}; there are {', '.join(_TOOLS)}", ok=False)
        try:
            return handler(arguments)
        except BadCallError as problem:
            return ToolResult(f"{tool}: {problem}", ok=False)

    def _view(self, arguments: Mapping[str, JSON]) -> ToolResult:
        path = _path(arguments, default=".")
        text = None if path == "." else self._text_of(path)
        if text is None:
            return self._shell(["ls", "-A", "--", path])
        lines = text.split("\n")
        start = max(1, _integer(arguments, "start", 1))
        end = min(len(lines), _integer(arguments, "end", start + _VIEW_LINES - 1))
        numbered = "\n".join(f"{n:5d}  {lines[n - 1]}" for n in range(start, end + 1))
        return ToolResult(
            f"{path}, lines {start}-{end} of {len(lines)}\n{clipped(numbered, OUTPUT_CHARS)}"
        )

    def _edit(self, arguments: Mapping[str, JSON]) -> ToolResult:
        path, old, new = _path(arguments), _text(arguments, "old", ""), _text(arguments, "new")
        before = self._text_of(path)
        if before is None and old:
            raise BadCallError(f"there is no text file {path}; leave old empty to create it")
        if before is not None and before.count(old) != 1:
            problem = "empty" if not old else f"found {before.count(old)} times"
            raise BadCallError(f"old must stand exactly once in {path}, but it is {problem}")
        after = new if before is None else before.replace(old, new)
        self._sandbox.write({f"repo/{path}": after.encode()})
        return ToolResult(f"{path} written, {len(after)} characters")

    def _search(self, arguments: Mapping[str, JSON]) -> ToolResult:
        pattern, path = _text(arguments, "pattern"), _path(arguments, default=".")
        result = self._exec(["grep", "-rnIE", "-m", "20", "--", pattern, path])
        if result.exit_code == 1:
            return ToolResult(f"nothing matches {pattern!r} below {path}")
        return result_of(result, _RUN_TIMEOUT_SEC, OUTPUT_CHARS)

    def _run(self, arguments: Mapping[str, JSON]) -> ToolResult:
        return self._shell(["/bin/sh", "-c", _text(arguments, "command")])

    def _test(self, arguments: Mapping[str, JSON]) -> ToolResult:
        paths = shlex.split(_text(arguments, "paths", self._default_tests))
        argv = [self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
        argv += ["--no-header", *paths]
        result = self._shell(argv)
        if not result.ok and _FOREIGN_OPTIONS in result.text:  # of a plugin that is not there
            result = self._shell([*argv, "-o", "addopts="])
        return replace(result, text=_without_varying(result.text))

    def _text_of(self, path: str) -> str | None:
        content = self._sandbox.read([f"repo/{path}"]).get(f"repo/{path}")
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError as problem:
            raise BadCallError(f"{path} is not UTF-8 text") from problem

    def _shell(self, argv: list[str]) -> ToolResult:
        return result_of(self._exec(argv), _RUN_TIMEOUT_SEC, OUTPUT_CHARS)

    def _exec(self, argv: list[str]) -> ExecResult:
        return self._sandbox.exec(
            argv,
            cwd="repo",
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            timeout_sec=_RUN_TIMEOUT_SEC,
            output_limit_bytes=1 << 18,
        )


def _without_varying(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def _text(arguments: Mapping[str, JSON], name: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise BadCallError(f"argument {name} must be a string, not {value!r:.60}")
    if "\0" in value:
        raise BadCallError(f"argument {name} holds a zero byte; leave it out")
    return value


def _integer(arguments: Mapping[str, JSON], name: str, default: int) -> int:
    value = arguments.get(name, default)
    try:
        return int(value)
    except (TypeError, ValueError) as problem:
        why = f"argument {name} must be a whole number, not {value!r:.60}"
        raise BadCallError(why) from problem


def _path(arguments: Mapping[str, JSON], default: str | None = None) -> str:
    path = _text(arguments, "path", default).removeprefix("./") or "."
    if path != "." and not is_inside(path.rstrip("/")):
        raise BadCallError(f"path {path!r} must be relative to the repository and stay inside it")
    return path.rstrip("/")
