"""One attempt at a task with a user's grader: the user's tools, a working folder, and an answer.

The grader gets the submitted answer, or the model's last reply if it submitted none. The user's
tools run in the grader's process, which keeps their state until the attempt ends. If the grader has
`files(task)`, the attempt also has a sandbox with these files, and the tools `run` and `write`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from meta_agent.core.errors import GuestError
from meta_agent.core.protocols import JSON, Message, Outcome, Sandbox, ToolResult
from meta_agent.domains._scratch import result_of
from meta_agent.domains.graded._workers import GRADE_SEC, Worker, Workers

Grade = Callable[[Mapping[str, JSON], Mapping[str, JSON]], Outcome]

RUN_SEC: Final = 60.0
MAX_TEXT_CHARS: Final = 1 << 18
MAX_FILES: Final = 512
MAX_FILE_BYTES: Final = 4 << 20
# Names of what is in the folder, one a line, links and history left out; read by no shell.
_LIST: Final = """
import os, stat, sys
room, paths = int(sys.argv[1]), []
for root, folders, files in os.walk('.'):
    folders[:] = [f for f in folders if f not in ('.git', '__pycache__')]
    paths += [os.path.relpath(os.path.join(root, name), '.') for name in files]
facts = {path: os.lstat(path) for path in paths if path.isprintable()}
for path in sorted(facts, key=lambda path: (facts[path].st_size, path)):
    room -= facts[path].st_size
    if stat.S_ISREG(facts[path].st_mode) and room >= 0:
        print(path)
"""


def _schema(name: str, about: str, *arguments: str) -> dict[str, JSON]:
    properties = {argument: {"type": "string"} for argument in arguments}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


WORK_SCHEMAS: Final = (
    _schema("run", "Run a shell command in the working folder", "command"),
    _schema("write", "Write a file of the working folder", "path", "content"),
)


class GradedEnvironment:
    """An attempt at a task with a user's grader: it runs tools, and keeps files and the answer."""

    work_tools: Sequence[str] = ("run", "write")

    def __init__(
        self,
        grade: Grade,
        row: Mapping[str, JSON],
        names: Sequence[str],
        workers: Workers,
        factory: Callable[[], Sandbox] | None,
        *,
        files: bool,
    ) -> None:
        self._grade, self._row, self._workers = grade, row, workers
        self._names, self._factory, self._gives_files = names, factory, files
        work = self.work_tools if factory else ()
        self.tools: Sequence[str] = (*names, *work, "submit")
        self._worker: Worker | None = None
        self._sandbox: Sandbox | None = None
        self._said = ""
        self._submitted: str | None = None
        self._calls: list[dict[str, JSON]] = []
        self._messages: list[Message] = []
        self._files: dict[str, JSON] | None = None

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        if self._submitted is not None:
            return ToolResult("the attempt is over", ok=False, done=True)
        if tool == "submit" and tool not in self._names:
            return self._submit(arguments)
        if tool in self._names:
            result = self._users_tool(tool, arguments)
        else:
            result = self._work(tool, arguments)
        call = {"tool": tool, "arguments": dict(arguments), "text": result.text, "ok": result.ok}
        self._calls.append(call)
        return result

    def _submit(self, arguments: Mapping[str, JSON]) -> ToolResult:
        value = arguments.get("answer", arguments.get("text"))
        if not isinstance(value, str | int | float):
            return ToolResult("submit needs the argument answer, a string", ok=False)
        self._submitted = str(value)[:MAX_TEXT_CHARS]
        return ToolResult("submitted", done=True)

    def _users_tool(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        if self._worker is None:
            self._worker = self._workers.lease()
            self._worker.ask("open", GRADE_SEC, row=dict(self._row))
        reply = self._worker.ask("call", GRADE_SEC, name=tool, arguments=dict(arguments))
        return ToolResult(reply["text"], reply["ok"])

    # --- the folder ---

    def _work(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        names = ("command",) if tool == "run" else ("path", "content")
        values = [arguments.get(name) for name in names]
        if not all(isinstance(value, str) for value in values):
            return ToolResult(f"{tool} needs {' and '.join(names)}, as strings", ok=False)
        sandbox = self._opened()
        if tool == "write":
            return _written(sandbox, str(values[0]), str(values[1]))
        command = ["sh", "-c", str(values[0])]
        done = sandbox.exec(command, cwd="repo", timeout_sec=RUN_SEC, output_limit_bytes=1 << 18)
        return result_of(done, RUN_SEC)

    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            assert self._factory is not None, "without files there are no tools to work on them"
            self._sandbox = self._factory()
            self._sandbox.exec(["mkdir", "-p", "repo"])
            self._sandbox.write({f"repo/{p}": data for p, data in self.start_files().items()})
        return self._sandbox

    def start_files(self) -> Mapping[str, bytes]:
        """Returns the files that a task starts with, by path: the grader's `files(task)`, or {}."""
        if not self._gives_files:
            return {}
        with self._workers.leased() as worker:
            contents = worker.ask("files", GRADE_SEC, row=dict(self._row))
        return {path: unpacked(data) for path, data in contents.items()}

    def collect(self, sandbox: Sandbox) -> bool:
        """Stores the files left in `sandbox`. Returns whether the agent left a file or a reply."""
        self._files = folder_of(sandbox)
        return bool(self._files or self._said)

    # --- the end ---

    def saw(self, messages: Sequence[Message]) -> None:
        """Stores the conversation. Its last reply is the answer if the agent submitted none."""
        self._messages = list(messages)
        replies = [m for m in messages if m.get("role") == "assistant" and m.get("content")]
        self._said = str(replies[-1]["content"])[:MAX_TEXT_CHARS] if replies else ""

    def grade(self) -> Outcome:
        return self._grade(self._row, self.verifier_inputs())

    def verifier_inputs(self) -> dict[str, JSON]:
        if self._files is None and self._sandbox is not None:
            self._files = folder_of(self._sandbox)
        answer = self._said if self._submitted is None else self._submitted
        inputs: dict[str, JSON] = {"answer": answer, "calls": self._calls}
        inputs["messages"] = [_plain(message) for message in self._messages]
        return {**inputs, "files": self._files} if self._files else inputs

    def close(self) -> None:
        """Gives the process of the user's tools back to the pool, and ends the sandbox."""
        if self._worker is not None:
            self._workers.give_back(self._worker)
            self._worker = None
        if self._sandbox is not None:
            self._sandbox.close()


def _plain(message: Message) -> dict[str, Any]:
    """Returns a message as it is stored: JSON, whatever the model's server sent beside it."""
    plain: dict[str, Any] = json.loads(json.dumps(message, default=str))
    return plain


def _written(sandbox: Sandbox, path: str, content: str) -> ToolResult:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "" in parts:
        return ToolResult(f"{path!r} is not a path inside the folder", ok=False)
    sandbox.write({f"repo/{path}": content.encode("utf-8", "replace")})
    return ToolResult(f"wrote {len(content)} characters to {path}")


def folder_of(sandbox: Sandbox) -> dict[str, JSON]:
    """Returns the regular files of a sandbox's `repo/` by path: the smallest ones, 4 MiB in all.

    Values are as `packed` returns them. Returns {} if a file grows while it is read.
    """
    command = ["python3", "-I", "-c", _LIST, str(MAX_FILE_BYTES)]
    listed = sandbox.exec(command, cwd="repo", timeout_sec=RUN_SEC, output_limit_bytes=1 << 20)
    names = listed.stdout.decode("utf-8", "replace").splitlines()[:MAX_FILES]
    try:
        contents = sandbox.read([f"repo/{name}" for name in names], limit_bytes=MAX_FILE_BYTES)
    except GuestError:
        return {}
    return {path.removeprefix("repo/"): packed(data) for path, data in sorted(contents.items())}


def packed(data: bytes) -> JSON:
    """Returns bytes as JSON: UTF-8 as a string, other content as an object with base64 text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def unpacked(data: JSON) -> bytes:
    """Returns the bytes of a JSON value: a string's in UTF-8, or an object's decoded base64."""
    if isinstance(data, dict):
        return base64.b64decode(data["base64"])
    return str(data).encode()
