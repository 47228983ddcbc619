"""Runs a grader that a user wrote, in a process of its own that the host may kill at any time.

This file uses the standard library alone and is started by its path, with any interpreter. Each
request is one line of JSON on standard input, and each reply is one line on standard output. What
the grader prints goes to standard error. The grader is a module with `grade`, or an adapter of one.

Does not cover: a sandbox. The grader is the user's own code, and trusted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
import typing
from pathlib import Path
from typing import Any

MAX_TEXT_CHARS = 1 << 18
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_MANY = {list: "array", tuple: "array", set: "array", dict: "object"}


class Answer(str):
    """The text that an attempt submitted, with what else a grader may want to look at.

    `calls`: the attempt's tool calls, as {"tool", "arguments", "text", "ok"}. `files`: the files of
    its working folder at the end, as str or bytes. `messages`: its conversation.
    """

    calls: list[dict[str, Any]]
    files: dict[str, Any]
    messages: list[dict[str, Any]]


def answer_of(submission: dict[str, Any]) -> Answer:
    """Returns the answer that the host sent as JSON."""
    answer = Answer(submission.get("answer") or "")
    answer.calls = submission.get("calls") or []
    answer.messages = submission.get("messages") or []
    answer.files = {path: unpacked(data) for path, data in (submission.get("files") or {}).items()}
    return answer


def unpacked(data: Any) -> Any:
    """Returns text as it is, and bytes from base64."""
    return base64.b64decode(data["base64"]) if isinstance(data, dict) else data


def packed(data: Any) -> Any:
    """Returns text as it is, and bytes as base64."""
    if isinstance(data, str):
        return data
    return {"base64": base64.b64encode(bytes(data)).decode("ascii")}


# Clients, locks and connections belong to the event loop that first used them: a process has one.
LOOP = asyncio.new_event_loop()


def resolved(value: Any) -> Any:
    """Returns a function's result, awaited if the function is async."""
    return LOOP.run_until_complete(awaited(value)) if inspect.isawaitable(value) else value


async def awaited(value: Any) -> Any:
    """Returns the result of any awaitable; a loop itself runs only coroutines."""
    return await value


class Refusal(Exception):  # noqa: N818 - its message is shown as a sentence
    """Raised if the module has no grader, or if the grader returns no grade."""


class Source:
    """The user's module, and the tools of the attempt that is open in this process."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.module = loaded(spec)
        self.grade: Any = getattr(self.module, spec.get("function") or "grade", None)
        self.judged = not callable(self.grade) and callable(getattr(self.module, "judge", None))
        if self.judged:
            self.grade = self.module.judge
        if not callable(self.grade):
            name = spec.get("function") or "grade"
            raise Refusal(f"it has no function {name}(task, answer)")
        self.open_tools: dict[str, Any] = {}

    def facts(self) -> dict[str, Any]:
        """Returns which functions the module defines, its settings, and its files' hashes."""
        has = {name: callable(getattr(self.module, name, None)) for name in OPTIONAL}
        limits = getattr(self.module, "LIMITS", None)
        return {
            **has,
            "judged": self.judged,
            "threshold": getattr(self.module, "THRESHOLD", None),
            "limits": limits if isinstance(limits, dict) else {},
            "files_read": beside(self.module),
            "about": getattr(self.module, "ABOUT", {}),
        }

    def tasks(self) -> list[Any]:
        return list(resolved(self.module.tasks()))

    def schemas(self, rows: list[Any]) -> list[Any]:
        """Returns the schemas of each task's tools, in OpenAI's form."""
        return [[schema_of(n, tool) for n, tool in self.tools_of(row).items()] for row in rows]

    def tools_of(self, row: Any) -> dict[str, Any]:
        tools = resolved(self.module.tools(row)) if hasattr(self.module, "tools") else {}
        if not isinstance(tools, dict):
            tools = {tool.__name__: tool for tool in tools or ()}
        return tools

    def files(self, row: Any) -> dict[str, Any]:
        contents = resolved(self.module.files(row)) if hasattr(self.module, "files") else {}
        return {str(path): packed(data) for path, data in (contents or {}).items()}

    def reference(self, row: Any) -> str:
        """Returns the user's text that solves a task. Raises Refusal if it is no text."""
        reply = resolved(self.module.reference(row))
        if not isinstance(reply, str):
            raise Refusal(f"reference(task) returned {reply!r:.80}: expected a text")
        return reply

    def open(self, row: Any) -> list[str]:
        """Starts an attempt with new tools from `tools(task)`, and returns their names."""
        self.open_tools = self.tools_of(row)
        return list(self.open_tools)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            value = resolved(self.open_tools[name](**arguments))
        except Exception as error:  # the model's arguments may be anything
            return {"text": f"{type(error).__name__}: {error}"[:MAX_TEXT_CHARS], "ok": False}
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        )
        return {"text": text[:MAX_TEXT_CHARS], "ok": True}

    def graded(self, row: Any, submission: dict[str, Any]) -> dict[str, Any]:
        value = resolved(self.grade(row, answer_of(submission)))
        if self.judged and isinstance(value, str) and value.strip():
            return {"rule": value}
        return grade_of(value)


OPTIONAL = ("tools", "files", "tasks", "reference")


def grade_of(value: Any) -> dict[str, Any]:
    """Returns a grade (a bool, number, outcome or {"score"}) as JSON. Raises Refusal for others."""
    if hasattr(value, "success"):
        detail = dict(getattr(value, "detail", None) or {})
        flags = [str(flag) for flag in getattr(value, "flags", ()) or ()]
        return {"success": as_bool(value.success), "detail": plain(detail), "flags": flags}
    if isinstance(value, dict) and "score" in value:
        score = grade_of(value["score"]).get("score", 0.0)
        return {"score": score, "detail": plain(value)}
    if hasattr(value, "item") and not isinstance(value, (bool, int, float)):
        value = value.item()  # a number of numpy or torch
    if isinstance(value, bool):
        return {"success": value}
    if isinstance(value, (int, float)):
        if value != value or value in (float("inf"), float("-inf")):
            raise Refusal(f"it returned {value}, which is no number to compare")
        return {"score": float(value)}
    raise Refusal(
        f"it returned {value!r:.80} ({type(value).__name__}): expected bool, float or Outcome"
    )


def as_bool(value: Any) -> bool:
    """Returns True or False. Raises Refusal for anything else."""
    if not isinstance(value, bool):
        raise Refusal(f"the success of its outcome is {value!r:.80}: expected True or False")
    return value


def plain(value: Any) -> Any:
    """Returns a value as JSON data, in which values that JSON lacks are strings."""
    return json.loads(json.dumps(value, default=str))


def loaded(spec: dict[str, Any]) -> Any:
    """Returns the user's module, imported from a file or by name, and set up if `spec` says so."""
    if spec.get("module"):
        return importlib.import_module(spec["module"])
    path = Path(spec["path"]).resolve()
    sys.path.insert(0, str(path.parent))
    name = path.stem
    import_spec = importlib.util.spec_from_file_location(name, path)
    if import_spec is None or import_spec.loader is None:
        raise Refusal("it is not a Python file")
    module = importlib.util.module_from_spec(import_spec)
    sys.modules[name] = module
    import_spec.loader.exec_module(module)
    if spec.get("setup"):
        module.setup(**spec["setup"])
    return module


def beside(module: Any) -> dict[str, str]:
    """Returns SHA-256 hashes, by path, of the module's file and of its imports from that folder."""
    home = Path(getattr(module, "__file__", None) or ".").resolve().parent
    files = {}
    for loaded_module in list(sys.modules.values()):
        path = Path(getattr(loaded_module, "__file__", None) or os.sep).resolve()
        if path.is_relative_to(home) and path.is_file() and "site-packages" not in path.parts:
            name = path.relative_to(home).as_posix()
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return files


# --- the schemas of tools -------------------------------------------------------------------------


def schema_of(name: str, tool: Any) -> dict[str, Any]:
    """Returns a tool in OpenAI's form, read from its signature and its docstring."""
    stated = getattr(tool, "schema", None)
    if isinstance(stated, dict):
        return stated
    try:
        hints = typing.get_type_hints(tool)
    except Exception:
        hints = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for word, parameter in inspect.signature(tool).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or word == "self":
            continue
        properties[word] = type_of(hints.get(word, str))
        if parameter.default is parameter.empty:
            required.append(word)
    about = inspect.getdoc(tool) or name
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


def type_of(hint: Any) -> dict[str, Any]:
    """Returns the JSON schema of a type hint: {} for a union, "string" for an unknown type."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return {"type": "string", "enum": [str(member) for member in typing.get_args(hint)]}
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        types = [member for member in typing.get_args(hint) if member is not type(None)]
        return type_of(types[0]) if len(types) == 1 else {}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    kind = _MANY.get(origin or hint)
    return {"type": kind, "items": {}} if kind == "array" else {"type": kind or "string"}


# --- the loop ------------------------------------------------------------------------------------


def main() -> None:
    """Answers the host's requests until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a grader prints is no reply
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # for the grader and what it starts: end of file
    asyncio.set_event_loop(LOOP)
    source: Source | None = None
    for line in requests:
        request = json.loads(line)
        op = request.pop("op")
        try:
            if op == "load":
                source = Source(request["spec"])
                reply = {"ok": source.facts()}
            else:
                reply = {"ok": getattr(source, op)(**request)}
            text = json.dumps(reply, ensure_ascii=True, allow_nan=False)
        except BaseException as error:  # also SystemExit: the grader ends itself, not us
            text = json.dumps({"error": error_text(error)})
        replies.write(text + "\n")
        replies.flush()


def error_text(error: BaseException) -> dict[str, str]:
    """Returns an error's kind, its message, and the line of the grader that raised it."""
    if isinstance(error, Refusal):
        return {"kind": "refusal", "message": str(error), "where": ""}
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return {"kind": type(error).__name__, "message": str(error)[:500], "where": where}


if __name__ == "__main__":
    main()
